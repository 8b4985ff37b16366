// The playground of a service: what is sent goes to all sides at once, and their answers stream in side by side.
import * as faults from "slipway/faults";
import { gettext, interpolate } from "slipway/texts";

// Yields [name, data] of each server-sent event.
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const fields = Object.fromEntries(block.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]));
      if (fields.event) yield [fields.event, JSON.parse(fields.data)];
    }
  }
}

function put(parent, tag, name, text = "") {
  const element = document.createElement(tag);
  element.className = name;
  element.textContent = text;
  parent.append(element);
  return element;
}

const seconds = (milliseconds) => interpolate(gettext("%(seconds)s s"), { seconds: (milliseconds / 1000).toFixed(2) });

// One side of the conversation.
class Side {
  constructor(box, form) {
    Object.assign(this, { box, form, messages: [] });
  }

  clear() {
    this.messages = [];
    this.box.replaceChildren();
  }

  body(given) {
    if (!given.message) return given.body;
    const { message, max_tokens, temperature } = given;
    this.messages.push({ role: "user", content: message });
    const streams = { stream: true, stream_options: { include_usage: true } };
    return { model: this.form.dataset.model, messages: this.messages, max_tokens, temperature, ...streams };
  }

  async ask(given, signal) {
    this.box.querySelector(".talk-empty")?.remove();
    if (given.message) put(this.box, "p", "talk-asked", given.message);
    const answer = put(this.box, "pre", "talk-answer");
    const figures = put(this.box, "p", "talk-figures text-quiet", gettext("Waiting for the first token"));
    const body = JSON.stringify({ side: this.box.dataset.side, method: this.form.dataset.method, path: given.path, body: this.body(given) });
    const problem = (text) => put(this.box, "p", "talk-problem", text);
    let status = 0, first = 0;
    try {
      const headers = { "Content-Type": "application/json", "X-CSRFToken": this.form.elements.csrfmiddlewaretoken.value };
      const response = await fetch(this.form.dataset.playground, { method: "POST", headers, body, signal });
      if (!response.ok) throw new Error((await response.json()).detail);
      for await (const [name, data] of events(response)) {
        if (name === "answer") status = data.status;
        else if (name === "text") {
          first ||= data.milliseconds;
          const isAtEnd = this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight < 60;
          answer.append(data.text);
          if (isAtEnd) this.box.scrollTop = this.box.scrollHeight;
        } else if (name === "end") {
          const parts = [`HTTP ${status}`, seconds(data.milliseconds)];
          if (first) parts.push(interpolate(gettext("first token after %(time)s"), { time: seconds(first) }));
          if (data.completion_tokens) parts.push(interpolate(gettext("%(count)s tokens"), { count: data.completion_tokens }));
          if (!first && !data.problem) parts.push(gettext("empty answer"));
          figures.textContent = parts.join(" · ");
          if (data.problem) problem(data.problem);
        }
      }
      if (!status) figures.remove();
    } catch (error) {
      figures.textContent = signal.aborted ? gettext("Stopped") : "";
      if (!signal.aborted) problem(error.message || gettext("The server does not respond."));
    }
    // Without an answer the message is as never sent: roles take turns.
    if (given.message && answer.textContent) this.messages.push({ role: "assistant", content: answer.textContent });
    else if (given.message) this.messages.pop();
    this.box.scrollTop = this.box.scrollHeight;
  }
}

function read(form) {
  const { path, message, max_tokens, temperature, body } = form.elements;
  const given = { path: path.value };
  if (message) return { ...given, message: message.value, max_tokens: Number(max_tokens.value), temperature: Number(temperature.value) };
  try {
    return { ...given, body: body ? JSON.parse(body.value || "{}") : {} };
  } catch (error) {
    faults.place(form, { body: [interpolate(gettext("This is no JSON: %(error)s"), { error: error.message })] });
    return null;
  }
}

export function start(form) {
  const sides = [...document.querySelectorAll("[data-side]")].map((box) => new Side(box, form));
  const stop = form.querySelector("[data-stops]");
  const send = form.querySelector("[type=submit]");
  let request = null;
  send.disabled = false;
  stop.addEventListener("click", () => request?.abort());
  form.addEventListener("reset", () => {
    request?.abort();
    sides.forEach((side) => side.clear());
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (request) return;
    faults.clear(form);
    const given = read(form);
    if (!given) return;
    request = new AbortController();
    stop.hidden = false;
    send.disabled = true;
    if (form.elements.message) form.elements.message.value = "";
    await Promise.all(sides.map((side) => side.ask(given, request.signal)));
    request = null;
    stop.hidden = true;
    send.disabled = false;
    form.elements.message?.focus();
  });
}
