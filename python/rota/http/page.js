// The page of a rota server: asks /groups every second, and /groups/{id} of the group that is chosen. Whatever comes
// from clients is put into the page as text (textContent), never as markup. Only the rows that are seen exist.

const ROW = 28, EVERY_MS = 1000, PAGE = 10000, MEMBERS_SHOWN = 200, CELLS_SHOWN = 2000;
const $ = (id) => document.getElementById(id);
let groups = [], shown = [], chosen = null, drawn = "", seenFirst = 0;
const made = new Map(); // rows by group id, until there is news

// Letters that cannot be seen, or that turn the text around, are shown by their numbers.
const plain = (text) => String(text).replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (letter) => `\\u{${letter.codePointAt(0).toString(16)}}`);

function el(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined && text !== null) made.textContent = plain(text);
  if (className) made.className = className;
  return made;
}

const short = (id) => id.replace(/([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i, "$1…");
const seconds = (ms) => ms === null ? "" : ms < 600000 ? `${(Math.floor(ms / 100) / 10).toFixed(1)} s` : `${Math.floor(ms / 60000)} min`;

async function ask(path) {
  const answer = await fetch(path, { cache: "no-store" });
  const value = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(value.message), { name: value.error });
  return value;
}

async function all() {
  const found = [];
  for (let after = null; ;) {
    const page = await ask(`groups?limit=${PAGE}` + (after === null ? "" : `&after=${encodeURIComponent(after)}`));
    found.push(...page.groups);
    if (page.next === null) return found;
    after = page.next;
  }
}

function svg(tag, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

// A histogram as two paths: the first `near` bars are those of members that are about to expire.
function bars(counts, near) {
  const most = Math.max(1, ...counts), chart = svg("svg", { class: "bars", viewBox: `0 0 ${counts.length} 1`, preserveAspectRatio: "none" });
  const bar = (count, at) => `M${at} 1V${1 - Math.max(0.04, count / most)}h.85V1z`;
  const path = counts.map((count, at) => [at < near && count > 0, bar(count, at)]);
  for (const [name, wanted] of [["near", true], ["far", false]]) {
    chart.append(svg("path", { class: name, d: path.filter(([isNear]) => isNear === wanted).map(([, drawing]) => drawing).join("") }));
  }
  return chart;
}

function row(group) {
  const line = el("button", null, "row"), slack = el("span");
  line.type = "button";
  line.setAttribute("aria-current", String(group.group_id === chosen));
  line.title = group.why;
  line.dataset.group = group.group_id;
  slack.append(bars(group.slack, 3));
  const last = group.last_rebalance;
  line.append(
    el("span", group.group_id), el("span", group.state, `state ${group.state}`), el("span", group.member_count),
    el("span", group.generation), slack, el("span", last ? `${last.cause}, ${seconds(last.began_ago_ms)} ago` : ""));
  line.addEventListener("click", () => choose(group.group_id));
  return line;
}

function filter() {
  const wanted = $("find").value, troubled = $("troubled").checked;
  shown = groups.filter((group) => group.group_id.includes(wanted) && (!troubled || group.waits > 0));
  $("none").hidden = shown.length > 0;
  $("space").style.height = `${shown.length * ROW}px`;
  made.clear();
  drawList();
}

function rowOf(group) {
  if (!made.has(group.group_id)) made.set(group.group_id, row(group));
  return made.get(group.group_id);
}

// Of all rows only those that can be seen, and some around them.
function drawList() {
  const list = $("list"), focused = document.activeElement?.closest?.("button.row")?.dataset.group;
  const first = Math.max(0, Math.floor(list.scrollTop / ROW / 8) * 8 - 8);
  const rows = shown.slice(first, first + Math.ceil(list.clientHeight / ROW) + 24).map(rowOf);
  $("rows").style.top = `${first * ROW}px`;
  $("rows").replaceChildren(...rows);
  if (focused !== undefined) rows.find((line) => line.dataset.group === focused)?.focus({ preventScroll: true });
}

function member(one, owner) {
  const line = el("tr"), session = el("td"), client = `${one.client_id} ${one.client_host}`;
  const name = el("td", short(one.member_id), `o${owner % 8}`);
  name.title = one.member_id;
  if (one.expires_in_ms !== null) {
    const left = el("meter");
    left.max = one.session_timeout_ms;
    left.low = one.session_timeout_ms / 3;
    left.value = Math.max(0, one.expires_in_ms);
    session.append(left, ` expires in ${seconds(Math.max(0, one.expires_in_ms))}`);
  }
  line.append(name, el("td", one.instance_id ? `${client} (${one.instance_id})` : client), session, el("td", one.parked));
  return line;
}

function grid(group, order) {
  const topics = new Map();
  for (const place of group.partitions.slice(0, CELLS_SHOWN)) {
    if (!topics.has(place.topic)) topics.set(place.topic, []);
    topics.get(place.topic).push(place);
  }
  const made = [...topics].map(([topic, places]) => {
    const box = el("div", topic, "topic"), cells = el("div", null, "cells");
    for (const place of places) {
      const owner = place.owners.length ? `o${order.get(place.owners[0]) % 8}` : "none";
      const cell = el("b", place.partition, owner + (place.owners.length > 1 ? " two" : ""));
      const lag = place.lag === null ? "unknown" : place.lag;
      cell.title = `${place.owners.join(", ") || "nobody"}; offset ${place.offset ?? "none"}, lag ${lag}`;
      cells.append(cell);
    }
    box.append(cells);
    return box;
  });
  const more = group.partitions.length - CELLS_SHOWN;
  if (more > 0) made.push(el("p", `and ${more} more partitions`));
  return made.length ? made : [el("p", "nothing is owned or committed")];
}

// One line for each rebalance: how long its join phase and its sync phase took, to one scale.
function timeline(rebalances) {
  const until = new Map(rebalances.map((one, at) => [one, rebalances[at + 1]?.began_ago_ms ?? 0]));
  const took = (one) => one.settled_after_ms ?? one.began_ago_ms - until.get(one);
  const longest = Math.max(1, ...rebalances.map(took));
  return [...rebalances].reverse().map((one, at, latestFirst) => {
    const line = el("li"), joined = one.joined_after_ms ?? took(one), next = latestFirst[at - 1];
    const chart = svg("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none" });
    const wide = Math.max(1, 100 * joined / longest);
    chart.append(svg("rect", { class: "join", x: 0, y: 0, width: wide, height: 10 }),
      svg("rect", { class: "sync", x: wide, y: 0, width: 100 * (took(one) - joined) / longest, height: 10 }));
    const open = next ? "interrupted" : "not over";
    const ended = one.settled_after_ms === null ? open : `took ${seconds(one.settled_after_ms)}`;
    const reason = one.reason ? ` (“${one.reason}”)` : "";
    line.append(el("span", `${seconds(one.began_ago_ms)} ago`), el("span", `${one.from_generation} → ${one.to_generation ?? "?"}`),
      el("span", ended), el("span", `${one.cause} ${short(one.member_id)}${reason}`));
    line.append(chart);
    return line;
  });
}

function slackOf(members) {
  const counts = Array(10).fill(0);
  for (const one of members.filter((one) => one.heard_ago_ms !== null)) {
    counts[Math.min(9, Math.max(0, Math.floor(10 * one.expires_in_ms / one.session_timeout_ms)))] += 1;
  }
  const scale = el("p");
  scale.append(el("span", "about to expire"), el("span", "just heard"));
  return [bars(counts, 3), scale];
}

function draw(group) {
  const seen = JSON.stringify([group.members.map((one) => [one.member_id, one.parked]), group.partitions, group.rebalances.length]);
  $("group").hidden = false;
  $("name").textContent = plain(group.group_id);
  $("why").textContent = group.why.sentence;
  $("why").className = group.waiting.length ? "waits" : "";
  const order = new Map(group.members.map((one, at) => [one.member_id, at]));
  const rows = group.members.slice(0, MEMBERS_SHOWN).map((one, at) => member(one, at));
  if (group.members.length > MEMBERS_SHOWN) rows.push(el("tr", `and ${group.members.length - MEMBERS_SHOWN} more`));
  $("members").tBodies[0].replaceChildren(...rows);
  if (seen !== drawn) $("grid").replaceChildren(...grid(group, order));
  $("timeline").replaceChildren(...timeline(group.rebalances));
  $("slack").replaceChildren(...slackOf(group.members));
  $("slack").setAttribute("aria-label", "members by the part of their session that is left");
  drawn = seen;
}

function choose(groupId) {
  chosen = groupId;
  drawn = "";
  history.replaceState(null, "", `#${encodeURIComponent(groupId)}`);
  made.clear();
  drawList();
  describe();
}

async function describe() {
  const asked = chosen;
  if (asked === null) return;
  try {
    const group = await ask(`groups/${encodeURIComponent(asked)}`);
    if (asked === chosen) draw(group);
  } catch (error) {
    if (asked !== chosen || error.name !== "NoSuchGroup") throw error;
    $("name").textContent = plain(asked);
    $("why").textContent = "this group is gone";
  }
}

async function refresh() {
  const totals = $("totals");
  try {
    groups = await all();
    const states = new Map();
    for (const group of groups) states.set(group.state, (states.get(group.state) ?? 0) + 1);
    const members = groups.reduce((sum, group) => sum + group.member_count, 0);
    totals.textContent = `${groups.length} groups, ${members} members: ` + [...states].map(([state, count]) => `${count} ${state}`).join(", ");
    totals.className = "";
    filter();
    await describe();
  } catch (error) {
    totals.textContent = `no answer: ${error.message}`;
    totals.className = "down";
  }
  setTimeout(refresh, EVERY_MS);
}

$("find").addEventListener("input", filter);
$("troubled").addEventListener("change", filter);
$("list").addEventListener("scroll", () => {
  const first = Math.floor($("list").scrollTop / ROW / 8);
  if (first !== seenFirst) drawList(seenFirst = first);
}, { passive: true });
addEventListener("resize", drawList);
try {
  if (location.hash.length > 1) chosen = decodeURIComponent(location.hash.slice(1));
} catch {
  chosen = null; // what is there is no group's id
}
refresh();
