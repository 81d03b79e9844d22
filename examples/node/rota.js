import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

/** A server of one test. */
export class Rota {
  /** For Kafka clients. */
  bootstrap;
  #control;
  #process;

  /** Starts `rota serve` on free ports and on a clock that stands still, so that no session ends by itself. */
  static async start() {
    const words = ["serve", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "--virtual-clock",
      "--set", "group.initial.rebalance.delay.ms=0", "--json"];
    const rota = new Rota();
    rota.#process = spawn("rota", words, { stdio: ["ignore", "pipe", "inherit"] });
    // The first line says where it listens, as soon as it does.
    for await (const line of createInterface({ input: rota.#process.stdout })) {
      const ready = JSON.parse(line);
      rota.bootstrap = ready.listen;
      rota.#control = `http://${ready.control}/control/`;
      return rota;
    }
    throw new Error("rota did not start");
  }

  stop() {
    this.#process.kill("SIGTERM");
  }

  /** Carries out a control. */
  do(name, fields = {}) {
    return this.#fetch(name, { method: "POST", body: JSON.stringify(fields) });
  }

  /** Looks at something. */
  ask(name, fields = {}) {
    return this.#fetch(`${name}?${new URLSearchParams(fields)}`);
  }

  async #fetch(target, request) {
    const answer = await fetch(this.#control + target, request);
    const told = await answer.json();
    if (!answer.ok) throw new Error(`${target}: ${told.message}`);
    return told;
  }

  /** The member ids of a group. */
  async members(group) {
    const { members } = await this.ask("members", { group });
    return members.map((member) => member.member_id);
  }
}
