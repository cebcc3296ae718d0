// The TypeScript SDK's client and the requester of its tasks package, against a server whose URL is the argument.
// Prints one line of JSON: what they saw.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { createTaskSessionFromClient } from "@modelcontextprotocol/ext-tasks/client";

const url = new URL(process.argv.at(-1));
const clientInfo = { name: "ext-tasks", version: "1" };
const clientCapabilities = { elicitation: {} };

// The SDK's client does not let results of tasks through, so their requester is given a transport of its own.
const transport = new StreamableHTTPClientTransport(url);
const waiting = new Map();
transport.onmessage = (message) => {
  waiting.get(message.id)?.(message);
  waiting.delete(message.id);
};
await transport.start();
let requests = 0;

async function rawDispatch(request) {
  const id = ++requests;
  const response = new Promise((resolve) => waiting.set(id, resolve));
  await transport.send({ jsonrpc: "2.0", id, ...request });
  const { result, error } = await response;
  return error === undefined ? { kind: "result", result } : { kind: "error", error };
}

const questions = [];

async function onInputRequest(request, { delivery }) {
  questions.push({ delivery, message: request.params.message });
  const content = {};
  for (const [name, { type }] of Object.entries(request.params.requestedSchema.properties))
    content[name] = type === "boolean" ? true : `asked ${request.params.message}`;
  return { action: "accept", content };
}

const client = new Client(clientInfo, { versionNegotiation: { mode: "auto" }, capabilities: clientCapabilities });
await client.connect(new StreamableHTTPClientTransport(url));
const protocolVersion = client.getNegotiatedProtocolVersion();
const sessions = [];

function open() {
  const session = createTaskSessionFromClient(client, {
    endpointId: "the server",
    rawDispatch,
    v2RequestFraming: { protocolVersion, clientInfo, clientCapabilities },
    onInputRequest,
  });
  sessions.push(session);
  return session;
}

function seen(execution, { outcome }) {
  const { status, result, error } = outcome;
  const text = result?.content?.[0]?.text;
  return { kind: execution.kind, status, text, isError: result?.isError, code: error?.code, message: error?.message };
}

async function call(session, name, params) {
  const asked = questions.length;
  const statuses = [];
  const execution = await session.callTool(name, params);
  const settled = await execution.settle({
    onEvent: (event) => void (event.type === "task" && statuses.push(event.task.status)),
  });
  return { ...seen(execution, settled), statuses: [...new Set(statuses)], questions: questions.slice(asked) };
}

async function cancel(session) {
  const execution = await session.callTool("slow_compute", { seconds: 600 });
  await execution.cancel();
  const settled = await execution.settle();
  const snapshot = await session.task(execution.handle.taskId).snapshot();
  return { ...seen(execution, settled), later: snapshot.status };
}

async function resume(session) {
  const execution = await session.callTool("slow_compute", { seconds: 0.5, label: "handed over" });
  let reference;
  await execution.handoff((given) => void (reference = JSON.parse(JSON.stringify(given))));
  await execution.result(); // or closing the session would cancel the task, though it was handed over
  await session.close();
  const resumed = await open().resumeTask(reference);
  return seen(resumed, await resumed.settle());
}

const session = open();
const report = {
  negotiated: { protocolVersion },
  greeted: await call(session, "greet", { name: "Ada" }),
  confirmed: await call(session, "confirm_delete", { filename: "notes.txt" }),
  twice: await call(session, "multi_input", {}),
  before: await call(session, "test_tool_with_task", {}),
  wrong: await call(session, "failing_job", {}),
  broken: await call(session, "protocol_error_job", {}),
  cancelled: await cancel(session),
  resumed: await resume(session),
};
console.log(JSON.stringify(report));
await sessions.at(-1).close();
await client.close();
await transport.close();
