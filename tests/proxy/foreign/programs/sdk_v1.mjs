// The client of the TypeScript SDK 1.x. Told where the other half is, a folder to call its root, and the server.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  CallToolResultSchema,
  CreateMessageRequestSchema,
  CreateTaskResultSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
} from "@modelcontextprotocol/sdk/types.js";

const [puppet, root, ...target] = process.argv.slice(1);
const { answering, reading, serve, tell } = await import(puppet);

const client = new Client(
  { name: "sdk-v1", version: "1" },
  { capabilities: { elicitation: {}, sampling: {}, roots: {} } },
);
const answers = answering(root);
for (const schema of [ElicitRequestSchema, CreateMessageRequestSchema, ListRootsRequestSchema])
  client.setRequestHandler(schema, ({ method, params }) => {
    tell({ asked: method, params });
    return answers[method](params);
  });
client.fallbackNotificationHandler = async ({ method, params }) => tell({ heard: method, params });

await client.connect(
  target[0].startsWith("http")
    ? new StreamableHTTPClientTransport(new URL(target[0]))
    : new StdioClientTransport({ command: target[0], args: target.slice(1) }),
);
const onprogress = (params) => tell({ heard: "notifications/progress", params });
const { tasks } = client.experimental;

async function task({ name, arguments: given }) {
  const statuses = [];
  const seen = { kind: "immediate", statuses };
  const options = { task: { ttl: 60_000 }, onprogress };
  for await (const message of tasks.callToolStream({ name, arguments: given }, CallToolResultSchema, options)) {
    if (message.type === "taskCreated") seen.kind = "task";
    if (message.type === "taskStatus") statuses.push(message.task.status);
    if (message.type === "result") seen.result = message.result;
    if (message.type === "error") seen.message = message.error.message;
  }
  return seen;
}

async function cancel({ name, arguments: given }) {
  const request = { method: "tools/call", params: { name, arguments: given } };
  const { taskId } = (await client.request(request, CreateTaskResultSchema, { task: { ttl: 60_000 } })).task;
  const { status } = await tasks.cancelTask(taskId);
  return { status, later: (await tasks.getTask(taskId)).status };
}

async function giveUp({ name, arguments: given }) {
  const controller = new AbortController();
  const options = { signal: controller.signal, onprogress: () => controller.abort() };
  return client.callTool({ name, arguments: given }, undefined, options).then(
    () => ({ isOver: true }),
    () => ({ isOver: false }),
  );
}

await serve({
  ...reading(client),
  task,
  cancel,
  give_up: giveUp,
  call: (params) => client.callTool(params, undefined, { onprogress }),
});
await client.close();
process.exit();
