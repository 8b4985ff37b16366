// Live values over one websocket.
//
// The page names what it wants in its markup; nothing else subscribes:
//   data-live-topic="fleet"         an element that shows a topic
//   data-live="node.7.busy"         a cell inside it: patched in place, without the server, without reflow
//   data-live-as="percent"          how: a name in format.js FORMATS, or `busy`, `heat`, `choice`, `progress`
//   hx-trigger="live:release:12 from:body"    a part that htmx loads again
//
// We send   {"type": "subscribe", "topics": [...], "age": s}       `age`: seconds since the page was asked for; a
//                                                                  topic that changed since then is told at once
//           {"type": "unsubscribe" | "snapshot", "topics": [...]}
// We read   {"type": "snapshot", "topic", "seq", "values": {path: value}}          everything
//           {"type": "delta", "topic", "seq", "from"?, "values", "gone"?: [path]}  changes since `from` (seq - 1)
//           {"type": "look", "topic"}                                              a row changed: load it again
//           {"type": "refused", "topic", "detail"}                                 not yours (any more)
//           {"type": "beat"}                                                       nothing new, still here
//           {"type": "down" | "up", "part": "redis"}                               news cannot reach us, or can again
// A delta that does not build upon what we hold means that we missed something: we ask for a snapshot.
// Close code 4401: signed out. 4403: the right is gone. Both end it; anything else is tried again.

export const SIGNED_OUT = 4401;
export const RIGHT_GONE = 4403;
const FIRST_WAIT_MS = 400;
const LONGEST_WAIT_MS = 15_000;
const SILENT_MS = 30_000; // three beats
const HIDDEN_MS = 30_000;

const askedAt = () => performance.getEntriesByType("navigation")[0]?.requestStart ?? 0;

export class Live extends EventTarget {
  #url; #topics = new Map(); #socket = null; #attempt = 0; #retry = 0; #silence = 0; #hidden = 0;
  #lost = false; #ended = false;

  constructor(url) {
    super();
    this.#url = url;
    this.state = "off";
    window.addEventListener("online", () => this.#retry && this.#connect());
    document.addEventListener("visibilitychange", () => this.#visibility());
    window.addEventListener("pagehide", () => this.#drop());
    window.addEventListener("pageshow", (event) => event.persisted && this.#wanted() && this.#connect());
  }

  // The topics that the page shows now: subscribes what is new, leaves what is gone.
  want(topics) {
    const wanted = new Set(topics);
    const fresh = [...wanted].filter((topic) => !this.#topics.has(topic));
    const gone = [...this.#topics.keys()].filter((topic) => !wanted.has(topic));
    for (const topic of fresh) this.#topics.set(topic, { seq: null, values: {}, asked: false });
    for (const topic of gone) this.#topics.delete(topic);
    if (this.#isOpen()) {
      if (fresh.length) this.#send("subscribe", fresh);
      if (gone.length) this.#send("unsubscribe", gone);
    } else if (this.#wanted() && !this.#socket && !this.#retry) this.#connect();
  }

  values(topic) {
    return this.#topics.get(topic)?.values ?? {};
  }

  #wanted() { return this.#topics.size > 0 && !this.#ended && !document.hidden; }
  #isOpen() { return this.#socket?.readyState === WebSocket.OPEN; }
  #send(type, topics) {
    const age = type === "subscribe" ? { age: (performance.now() - askedAt()) / 1000 } : {};
    this.#socket.send(JSON.stringify({ type, topics, ...age }));
  }
  #tell(name, detail) { this.dispatchEvent(new CustomEvent(name, { detail })); }

  #become(state, detail = {}) {
    this.state = state;
    this.#tell("state", { state, ...detail });
  }

  #connect() {
    clearTimeout(this.#retry);
    this.#retry = 0;
    if (this.#socket || !this.#wanted()) return;
    const socket = new WebSocket(this.#url);
    this.#socket = socket;
    if (this.state === "off") this.#become("connecting");
    socket.addEventListener("open", () => {
      for (const topic of this.#topics.values()) Object.assign(topic, { seq: null, asked: false });
      this.#send("subscribe", [...this.#topics.keys()]);
      this.#heard();
      this.#become("live");
      this.#regain();
    });
    socket.addEventListener("message", (event) => {
      this.#heard();
      this.#attempt = 0;
      let message;
      try {
        message = JSON.parse(event.data);
      } catch {
        return;
      }
      this.#read(message);
    });
    socket.addEventListener("close", (event) => this.#closed(socket, event.code));
  }

  #regain() {
    if (this.#lost) this.#tell("regained");
    this.#lost = false;
  }

  #read(message) {
    if (message.type === "down") {
      this.#lost = true;
      this.#become("stale", { part: message.part });
      return;
    }
    if (message.type === "up") {
      this.#become("live");
      this.#regain();
      return;
    }
    const topic = this.#topics.get(message.topic);
    if (!topic) return;
    if (message.type === "snapshot") {
      const before = topic.values;
      Object.assign(topic, { seq: message.seq, values: { ...message.values }, asked: false });
      const gone = Object.keys(before).filter((path) => !(path in topic.values));
      this.#tell("values", { topic: message.topic, values: message.values, gone, whole: true });
    } else if (message.type === "delta") {
      if (topic.asked) return;
      if (topic.seq === null || (message.from ?? message.seq - 1) > topic.seq) {
        topic.asked = true;
        this.#send("snapshot", [message.topic]);
        return;
      }
      if (message.seq <= topic.seq) return;
      topic.seq = message.seq;
      for (const path in message.values) topic.values[path] = message.values[path];
      for (const path of message.gone ?? []) delete topic.values[path];
      this.#tell("values", { topic: message.topic, values: message.values, gone: message.gone ?? [] });
    } else if (message.type === "look") {
      this.#tell("look", { topic: message.topic });
    } else if (message.type === "refused") {
      this.#tell("refused", { topic: message.topic, detail: message.detail ?? "" });
    }
  }

  #heard() {
    clearTimeout(this.#silence);
    this.#silence = setTimeout(() => this.#socket?.close(4000, "silent"), SILENT_MS);
  }

  #closed(socket, code) {
    if (socket !== this.#socket) return;
    this.#socket = null;
    clearTimeout(this.#silence);
    if (code === SIGNED_OUT || code === RIGHT_GONE) {
      this.#ended = true;
      this.#become(code === SIGNED_OUT ? "signed-out" : "right-gone");
      return;
    }
    this.#lost = true;
    if (!this.#wanted()) {
      this.#become("off");
      return;
    }
    const ceiling = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** this.#attempt);
    const wait = ceiling / 2 + Math.random() * (ceiling / 2); // not all browsers at once after a restart
    this.#attempt += 1;
    this.#retry = setTimeout(() => this.#connect(), wait);
    this.#become("lost", { wait });
  }

  #drop() {
    clearTimeout(this.#retry);
    clearTimeout(this.#silence);
    this.#retry = 0;
    const socket = this.#socket;
    this.#socket = null;
    socket?.close(1000);
    if (socket) this.#lost = true;
  }

  #visibility() {
    clearTimeout(this.#hidden);
    if (document.hidden) {
      this.#hidden = setTimeout(() => {
        this.#drop();
        this.#become("off");
      }, HIDDEN_MS);
    } else if (this.#wanted() && !this.#socket) {
      this.#attempt = 0;
      this.#connect();
    }
  }
}
