"""The server of make.sh: mode ok | errors | nocache, port."""
import asyncio, itertools, json, sys
from aiohttp import web

mode, port = sys.argv[1], int(sys.argv[2])
counter = itertools.count()

def chunk(body, delta, finish=None):
    return {"id": "x", "object": "chat.completion.chunk", "model": body["model"], "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

async def chat(request):
    body, n = await request.json(), next(counter)
    if mode == "errors" and n % 6 == 3:
        return web.Response(status=500, text='{"error":{"message":"engine died","type":"InternalServerError"}}', content_type="application/json")
    tokens = 4 if mode == "nocache" else body.get("max_completion_tokens") or 8
    usage = {"prompt_tokens": 32 if mode == "nocache" else 40, "completion_tokens": tokens, "total_tokens": 40 + tokens}
    if mode != "nocache":
        usage["prompt_tokens_details"] = {"cached_tokens": 16}
    if not body.get("stream"):
        await asyncio.sleep(0.03)
        message = {"role": "assistant", "content": " token" * tokens}
        return web.json_response({"id": "x", "object": "chat.completion", "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "length"}], "usage": usage})
    answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await answer.prepare(request)
    async def event(o):
        await answer.write(b"data: " + json.dumps(o).encode() + b"\n\n")
    await event(chunk(body, {"role": "assistant", "content": ""}))
    await asyncio.sleep(0.02)
    for i in range(tokens):
        if mode == "errors" and n % 6 == 5 and i == 2:
            await answer.write(b'event: error\n: boom happened\ndata: {"error":"boom"}\n\n')
            return answer
        await event(chunk(body, {"content": " token"}))
        await asyncio.sleep(0.004)
    await event(chunk(body, {}, "length"))
    await event({"id": "x", "object": "chat.completion.chunk", "model": body["model"], "choices": [], "usage": usage})
    await answer.write(b"data: [DONE]\n\n")
    return answer

app = web.Application()
app.router.add_post("/v1/chat/completions", chat)
web.run_app(app, host="127.0.0.1", port=port, print=None)
