// The page of a rota server: asks /groups every second, and /groups/{id} of the group that is chosen. Whatever comes
// from clients is put into the page as text (textContent), never as markup. Only the rows that are seen exist, and they
// stay: only values that have changed are written.

const ROW = 28, EVERY_MS = 1000, PAGE = 10000, MEMBERS_SHOWN = 200, CELLS_SHOWN = 2000;
const $ = (id) => document.getElementById(id);
let groups = [], shown = [], chosen = null, drawn = "", seenFirst = 0;
const made = new Map(), seats = new Map(); // parts of rows by group id, of the chosen group's members by member id

// Letters that cannot be seen, or that turn the text around, are shown by their numbers.
const plain = (text) => String(text).replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (letter) => `\\u{${letter.codePointAt(0).toString(16)}}`);

function el(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined && text !== null) made.textContent = plain(text);
  if (className) made.className = className;
  return made;
}

function write(element, text) {
  const told = plain(text ?? "");
  if (element.textContent !== told) element.textContent = told;
}

// Has a box contain these lines in this order; those that stay are not touched.
function arrange(box, lines) {
  const wanted = new Set(lines);
  for (const line of [...box.children]) if (!wanted.has(line)) line.remove();
  lines.forEach((line, at) => {
    if (box.children[at] !== line) box.insertBefore(line, box.children[at] ?? null);
  });
}

// The parts by key for these keys only, made where they are missing.
function parts(known, keys, make) {
  const wanted = new Set(keys);
  for (const key of [...known.keys()]) if (!wanted.has(key)) known.delete(key);
  for (const key of keys) if (!known.has(key)) known.set(key, make(key));
  return keys.map((key) => known.get(key));
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

function row(groupId) {
  const line = el("button", null, "row");
  const spans = ["state", "members", "generation", "slack", "why"].map((name) => [name, el("span")]);
  line.type = "button";
  line.append(el("span", groupId), ...spans.map(([, span]) => span));
  line.addEventListener("click", () => choose(groupId));
  return { line, drawn: "", ...Object.fromEntries(spans) };
}

function fill(row, group) {
  const slack = group.slack.join();
  row.line.setAttribute("aria-current", String(group.group_id === chosen));
  row.line.title = group.why;
  write(row.state, group.state);
  row.state.className = `state ${group.state}`;
  write(row.members, group.member_count);
  write(row.generation, group.generation);
  // The state has a column of its own.
  const held = `${group.state} for `;
  write(row.why, group.why.startsWith(held) ? group.why.slice(held.length) : group.why);
  if (slack !== row.drawn) row.slack.replaceChildren(bars(group.slack, 3));
  row.drawn = slack;
}

function filter() {
  const wanted = $("find").value, troubled = $("troubled").checked;
  shown = groups.filter((group) => group.group_id.includes(wanted) && (!troubled || group.waits > 0));
  $("none").hidden = shown.length > 0;
  $("space").style.height = `${shown.length * ROW}px`;
  drawList();
}

// Of all rows only those that can be seen, and some around them.
function drawList() {
  const list = $("list"), first = Math.max(0, Math.floor(list.scrollTop / ROW / 8) * 8 - 8);
  const seen = shown.slice(first, first + Math.ceil(list.clientHeight / ROW) + 24);
  const rows = parts(made, seen.map((group) => group.group_id), row);
  rows.forEach((row, at) => fill(row, seen[at]));
  $("rows").style.top = `${first * ROW}px`;
  arrange($("rows"), rows.map((row) => row.line));
}

function seat(memberId) {
  const line = el("tr"), name = el("td", short(memberId)), client = el("td"), session = el("td"), parked = el("td");
  const left = el("meter"), expires = el("span");
  name.title = memberId;
  session.append(left, " ", expires);
  line.append(name, client, session, parked);
  return { line, name, client, left, expires, parked };
}

function fillSeat(seat, one, owner) {
  const client = `${one.client_id} ${one.client_host}`, leftMs = Math.max(0, one.expires_in_ms ?? 0);
  seat.name.className = `o${owner % 8}`;
  write(seat.client, one.instance_id ? `${client} (${one.instance_id})` : client);
  seat.left.hidden = one.expires_in_ms === null;
  seat.left.max = one.session_timeout_ms;
  seat.left.low = one.session_timeout_ms / 3;
  seat.left.value = leftMs;
  write(seat.expires, one.expires_in_ms === null ? "" : `expires in ${seconds(leftMs)}`);
  write(seat.parked, one.parked ?? owes(one));
}

// What a member of a consumer group has to give up, and until when it may.
function owes(one) {
  const places = Object.entries(one.revoking ?? {}).map(([topic, indexes]) => `${topic} ${indexes.join(", ")}`);
  if (places.length === 0) return "";
  const until = one.rebalance_ends_in_ms === null ? "" : ` within ${seconds(Math.max(0, one.rebalance_ends_in_ms))}`;
  return `has to give up ${places.join("; ")}${until}`;
}

function drawMembers(group) {
  const some = group.members.slice(0, MEMBERS_SHOWN), rows = parts(seats, some.map((one) => one.member_id), seat);
  rows.forEach((row, at) => fillSeat(row, some[at], at));
  const more = group.members.length - some.length, last = el("tr");
  last.append(el("td", `and ${more} more`));
  arrange($("members").tBodies[0], [...rows.map((row) => row.line), ...(more > 0 ? [last] : [])]);
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
      cell.title = `${place.owners.join(", ") || "no owner"}; offset ${place.offset ?? "none"}, lag ${lag}`;
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
  drawMembers(group);
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
