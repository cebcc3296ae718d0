// A client that does as it is told: commands come in as lines of JSON, and what came of them goes out as such.
import { createInterface } from "node:readline";

export const tell = (said) => void process.stdout.write(`${JSON.stringify(said)}\n`);

export async function serve(verbs) {
  const carryOut = async ({ number: id, verb, told }) => {
    try {
      tell({ id, done: (await verbs[verb](told)) ?? null });
    } catch (error) {
      if (!Number.isInteger(error.code)) return tell({ id, wrong: String(error.stack) });
      const message = error.message.replace(`MCP error ${error.code}: `, "");
      tell({ id, error: { code: error.code, message, data: error.data ?? null } });
    }
  };
  tell({ ready: true });
  for await (const line of createInterface({ input: process.stdin })) void carryOut(JSON.parse(line));
}

// What a server asks, answered: the first field of a form, a word, a folder.
export function answering(root) {
  return {
    "elicitation/create"({ requestedSchema }) {
      const [[name, field]] = Object.entries(requestedSchema.properties);
      const oneOf = field.enum ?? field.oneOf?.map((each) => each.const);
      return { action: "accept", content: { [name]: oneOf?.[0] ?? "Ada" } };
    },
    "sampling/createMessage": () => ({
      role: "assistant",
      model: "none",
      content: { type: "text", text: "Something" },
    }),
    "roots/list": () => ({ roots: [{ uri: `file://${root}`, name: "home" }] }),
  };
}

// What both generations of the SDK's client do by the same words.
export function reading(client) {
  return {
    about: async () => ({ capabilities: client.getServerCapabilities() }),
    tools: async () => (await client.listTools()).tools,
    resources: async () => (await client.listResources()).resources,
    templates: async () => (await client.listResourceTemplates()).resourceTemplates,
    prompts: async () => (await client.listPrompts()).prompts,
    read: async (params) => (await client.readResource(params)).contents,
    prompt: async (params) => (await client.getPrompt(params)).messages,
    complete: async (params) => (await client.complete(params)).completion.values,
    subscribe: (params) => client.subscribeResource(params),
    level: ({ level }) => client.setLoggingLevel(level),
  };
}
