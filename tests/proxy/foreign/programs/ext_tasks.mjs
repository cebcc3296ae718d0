// The client of the TypeScript SDK 2.x with its tasks package. Told where the other half is, a folder to call its root,
// the generation, and the server.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { createTaskSessionFromClient } from "@modelcontextprotocol/ext-tasks/client";

const [puppet, root, generation, ...target] = process.argv.slice(1);
const { answering, reading, serve, tell } = await import(puppet);

const clientInfo = { name: "ext-tasks", version: "1" };
const capabilities = { elicitation: {}, sampling: {}, roots: {} };
const anything = { "~standard": { version: 1, vendor: "coatcheck", validate: (value) => ({ value }) } };
const isModern = generation === "2026";
const answers = answering(root);

function open() {
  return target[0].startsWith("http")
    ? new StreamableHTTPClientTransport(new URL(target[0]))
    : new StdioClientTransport({ command: target[0], args: target.slice(1) });
}

// The SDK's client does not let results of tasks through, so in 2026-07-28 their requester is given its own transport.
async function dispatcher() {
  const transport = open();
  const waiting = new Map();
  let requests = 0;
  transport.onmessage = (message) => {
    if (message.id === undefined) return tell({ heard: message.method, params: message.params });
    waiting.get(message.id)?.(message);
    waiting.delete(message.id);
  };
  await transport.start();
  return async (request) => {
    const id = ++requests;
    const response = new Promise((resolve) => waiting.set(id, resolve));
    await transport.send({ jsonrpc: "2.0", id, ...request });
    const { result, error } = await response;
    return error === undefined ? { kind: "result", result } : { kind: "error", error };
  };
}

const client = new Client(clientInfo, {
  capabilities,
  ...(isModern ? { versionNegotiation: { mode: "auto" } } : {}),
});
client.setRequestHandler("roots/list", ({ params }) => {
  tell({ asked: "roots/list", params });
  return answers["roots/list"]();
});
client.fallbackNotificationHandler = async ({ method, params }) => tell({ heard: method, params });
await client.connect(open());
const protocolVersion = client.getNegotiatedProtocolVersion();
const framing = { protocolVersion, clientInfo, clientCapabilities: capabilities };

const session = createTaskSessionFromClient(client, {
  endpointId: "the proxy",
  ...(isModern ? { rawDispatch: await dispatcher(), v2RequestFraming: framing } : {}),
  async onInputRequest({ kind, params }) {
    const method = { elicitation: "elicitation/create", sampling: "sampling/createMessage", roots: "roots/list" }[kind];
    tell({ asked: method, params });
    return answers[method](params);
  },
});

function told(execution, { outcome: { status, result, error } }, statuses) {
  return { kind: execution.kind, status, statuses, result, message: error?.message, code: error?.code };
}

async function settled(name, given, options) {
  const statuses = [];
  let collecting;
  const execution = await session.callTool(name, given, options);
  const settled = await execution.settle({
    onEvent({ type, task }) {
      if (type !== "task") return;
      if (task.statusMessage) tell({ heard: "notifications/progress", params: { message: task.statusMessage } });
      statuses.push(task.status);
      // In 2025-11-25 questions come where the result is waited for, which the package does only when all is over.
      const { taskId } = task;
      if (!isModern && task.status === "input_required")
        collecting ??= client.request({ method: "tasks/result", params: { taskId } }, anything);
    },
  });
  await collecting;
  return told(execution, settled, statuses);
}

const PREFER = isModern ? undefined : { task: { preference: "prefer", retentionMs: 60_000 } };

async function cancel({ name, arguments: given }) {
  const execution = await session.callTool(name, given, PREFER);
  const { taskId } = execution.handle;
  await execution.cancel();
  const { outcome } = await execution.settle();
  return { status: outcome.status, later: (await session.task(taskId).snapshot()).status };
}

// The SDK's own call, which knows no tasks, until it is said how far it is.
async function giveUp({ name, arguments: given }) {
  const controller = new AbortController();
  const options = { signal: controller.signal, onprogress: () => controller.abort() };
  return client.callTool({ name, arguments: given }, options).then(
    () => ({ isOver: true }),
    () => ({ isOver: false }),
  );
}

// In 2026-07-28 one does not subscribe, but listen.
async function subscribe({ uri }) {
  if (!isModern) return client.subscribeResource({ uri });
  await client.listen({ resourceSubscriptions: [uri] });
}

await serve({
  ...reading(client),
  subscribe,
  cancel,
  give_up: giveUp,
  task: ({ name, arguments: given }) => settled(name, given, PREFER),
  async call({ name, arguments: given }) {
    const seen = await settled(name, given);
    if (seen.result === undefined) throw Object.assign(new Error(seen.message ?? seen.status), { code: seen.code ?? 0 });
    return seen.result;
  },
});
await session.close();
await client.close();
process.exit();
