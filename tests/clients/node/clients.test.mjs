// The packages `openai` and `ai` of Node, unchanged, against `ffwd serve` with the embedded model.

import assert from "node:assert/strict";
import test from "node:test";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import Anthropic from "@anthropic-ai/sdk";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, generateText, streamObject, tool } from "ai";
import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

const baseURL = process.env.FFWD_TEST_SERVER;
const model = "extract-5m";
const text = "Invoice 4711 of Acme Ltd. Total: 12.50 EUR";
const wanted = { vendor: "Acme Ltd", total: 12.5 };
const Bill = z.object({ vendor: z.string(), total: z.number() });
const client = new OpenAI({ baseURL, apiKey: "none", maxRetries: 0 });
const compatible = createOpenAICompatible({ name: "ffwd", baseURL, supportsStructuredOutputs: true });
const anthropicModels = createAnthropic({ baseURL, apiKey: "none" });
const responses = createOpenAI({ baseURL, apiKey: "none" });

test("openai: chat completions", async () => {
  const answer = await client.chat.completions.parse({
    model,
    messages: [{ role: "user", content: text }],
    response_format: zodResponseFormat(Bill, "bill"),
  });
  assert.deepEqual(answer.choices[0].message.parsed, wanted);
});

test("openai: a stream", async () => {
  const stream = client.chat.completions.stream({
    model,
    messages: [{ role: "user", content: text }],
    response_format: zodResponseFormat(Bill, "bill"),
  });
  const final = await stream.finalChatCompletion();
  assert.deepEqual(final.choices[0].message.parsed, wanted);
});

test("openai: responses", async () => {
  const answer = await client.responses.parse({ model, input: text, text: { format: zodTextFormat(Bill, "bill") } });
  assert.deepEqual(answer.output_parsed, wanted);
});

test("openai: a fault names the field", async () => {
  const wrong = { model, messages: [{ role: "user", content: text }], temprature: 1 };
  await assert.rejects(client.chat.completions.create(wrong), (error) => {
    return error.status === 400 && error.param === "temprature";
  });
});

test("anthropic: a call, whole and streamed", async () => {
  const anthropic = new Anthropic({ baseURL: baseURL.replace(/\/v1$/, ""), apiKey: "none", maxRetries: 0 });
  const schema = { type: "object", properties: { vendor: { type: "string" } }, required: ["vendor"] };
  const tools = [{ name: "pay", input_schema: schema }];
  const request = { model, max_tokens: 100, tools, tool_choice: { type: "any" }, messages: [{ role: "user", content: text }] };
  const whole = await anthropic.messages.create(request);
  assert.equal(whole.stop_reason, "tool_use");
  const final = await anthropic.messages.stream(request).finalMessage();
  assert.deepEqual(final.content.map((block) => block.input), whole.content.map((block) => block.input));
});

for (const [name, chosen] of [["compatible", compatible(model)], ["chat", responses.chat(model)], ["responses", responses(model)], ["anthropic", anthropicModels(model)]]) {
  test(`AI SDK: generateObject, ${name}`, async () => {
    const { object, finishReason } = await generateObject({ model: chosen, schema: Bill, prompt: text });
    assert.deepEqual(object, wanted);
    assert.equal(finishReason, "stop");
  });

  test(`AI SDK: streamObject, ${name}`, async () => {
    const { partialObjectStream, object } = streamObject({ model: chosen, schema: Bill, prompt: text });
    let parts = 0;
    for await (const _ of partialObjectStream) parts += 1;
    assert.ok(parts > 1, `${parts} parts`);
    assert.deepEqual(await object, wanted);
  });

  test(`AI SDK: tools, ${name}`, async () => {
    const add = tool({ description: "Add", inputSchema: z.object({ a: z.number().int(), b: z.number().int() }) });
    const { toolCalls } = await generateText({ model: chosen, prompt: "2 and 3", tools: { add }, toolChoice: "required" });
    assert.ok(toolCalls.length > 0);
    for (const call of toolCalls) {
      assert.equal(call.toolName, "add");
      assert.deepEqual(Object.keys(call.input).sort(), ["a", "b"]);
    }
  });
}
