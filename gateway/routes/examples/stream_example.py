"""Example streams, one for each kind of event, for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.dialects.anthropic.answer import MessageEvent
from gateway.dialects.cohere.answer import CohereChatEvent
from gateway.dialects.mindie.answer import GenerationChunk
from gateway.dialects.ollama.answer import OllamaChatAnswer, OllamaGenerateAnswer
from gateway.dialects.openai_family.answers.chunk import ChatChunk, CompletionChunk, ResponseEvent

_CHAT: Final = """\
data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1760000000,"model":"sluice-demo",\
"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}

data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1760000000,"model":"sluice-demo",\
"choices":[{"index":0,"delta":{"content":"Hello!"},"finish_reason":null}]}

data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1760000000,"model":"sluice-demo",\
"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

data: [DONE]

"""
_COMPLETION: Final = """\
data: {"id":"cmpl-1","object":"text_completion","created":1760000000,"model":"sluice-demo",\
"choices":[{"index":0,"text":" three","finish_reason":null}]}

data: {"id":"cmpl-1","object":"text_completion","created":1760000000,"model":"sluice-demo",\
"choices":[{"index":0,"text":"","finish_reason":"length"}]}

data: [DONE]

"""
_RESPONSE: Final = """\
event: response.output_text.delta
data: {"type":"response.output_text.delta","sequence_number":4,"item_id":"msg_1_0","output_index":0,\
"content_index":0,"delta":"Hello!"}

event: response.output_text.done
data: {"type":"response.output_text.done","sequence_number":5,"item_id":"msg_1_0","output_index":0,\
"content_index":0,"text":"Hello!"}

"""
_MESSAGE: Final = """\
event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello!"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_stop
data: {"type":"message_stop"}

"""
_GENERATION: Final = """\
data:{"id":"1","model_name":"sluice-demo","model_version":"1","text_output":" three"}

data:{"id":"1","model_name":"sluice-demo","model_version":"1","text_output":"","finish_reason":"length"}

"""
_COHERE: Final = """\
event: content-start
data: {"type":"content-start","index":0,"delta":{"message":{"content":{"type":"text","text":""}}}}

event: content-delta
data: {"type":"content-delta","index":0,"delta":{"message":{"content":{"text":"Hello!"}}}}

event: content-end
data: {"type":"content-end","index":0}

event: message-end
data: {"type":"message-end","id":"1","delta":{"finish_reason":"COMPLETE",\
"usage":{"tokens":{"input_tokens":9,"output_tokens":2},"cached_tokens":0}}}

"""
_LAST_LINE: Final = """\
"done":true,"done_reason":"stop","total_duration":120000000,"load_duration":1000000,"prompt_eval_count":9,\
"prompt_eval_duration":80000000,"eval_count":2,"eval_duration":39000000}
"""
_OLLAMA_CHAT: Final = f"""\
{{"model":"sluice-demo","created_at":"2025-10-09T08:53:20.000000Z",\
"message":{{"role":"assistant","content":"Hello!"}},"done":false}}
{{"model":"sluice-demo","created_at":"2025-10-09T08:53:20.000000Z",\
"message":{{"role":"assistant","content":""}},{_LAST_LINE}"""
_OLLAMA_GENERATE: Final = f"""\
{{"model":"sluice-demo","created_at":"2025-10-09T08:53:20.000000Z","response":"Hello!","done":false}}
{{"model":"sluice-demo","created_at":"2025-10-09T08:53:20.000000Z","response":"",{_LAST_LINE}"""
STREAM_EXAMPLES: Final[Mapping[type, str]] = {
    ChatChunk: _CHAT,
    CompletionChunk: _COMPLETION,
    ResponseEvent: _RESPONSE,
    MessageEvent: _MESSAGE,
    GenerationChunk: _GENERATION,
    CohereChatEvent: _COHERE,
    OllamaChatAnswer: _OLLAMA_CHAT,
    OllamaGenerateAnswer: _OLLAMA_GENERATE,
}
