"""What the pipeline's tests run on: small tokenizers, templates, and models that say what a test wants."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import transformers
from sluice.v1 import chat_pb2, content_pb2, tool_pb2

from service.engine.constraint_state import ConstraintState
from service.engine.detokenizer import Detokenizer
from service.engine.tokenizer import FastTokenizer
from service.generation.output import FinishReason, GenerationOutput, Timings, TokenLogprob
from service.generation.parameters import StopParams
from service.pipeline.chat import ChatPipeline
from service.pipeline.control_tokens import ControlTokens
from service.pipeline.fold import ChatFold
from service.pipeline.pieces import CallArguments, CallStart, Content, Piece, Reasoning
from service.pipeline.prepared_chat import PreparedChat
from service.pipeline.template import ChatTemplate

DEMO = Path(__file__).parents[2] / "demo" / "model"
END = "<|im_end|>"
SPECIAL = ("<|im_start|>", END)
ADDED = ("<think>", "</think>", "<tool_call>", "</tool_call>")
# The shape of ChatML with every marker that the tests speak of.
CHATML = (
    "{%- if tools %}{{ '<|im_start|>system\n' }}{% for tool in tools %}{{ tool | tojson }}{% endfor %}"
    "{{ 'as <tool_call>, not <think></think><|im_end|>\n' }}{% endif %}"
    "{%- for message in messages %}"
    "{{ '<|im_start|>' + message.role + '\n' }}"
    "{%- if message.reasoning_content %}{{ '<think>\n' + message.reasoning_content + '\n</think>\n\n' }}{% endif %}"
    "{{ message.content }}"
    "{%- for call in message.tool_calls or [] %}{{ '<tool_call>' + (call.function | tojson) + '</tool_call>' }}"
    "{%- endfor %}{{ '<|im_end|>\n' }}{% endfor %}"
    "{{ '<|im_start|>assistant\n' }}"
    "{%- if enable_thinking is defined and not enable_thinking %}{{ '<think>\n\n</think>\n\n' }}{% endif %}"
)


@cache
def tokenizer_of(*added: str, special: tuple[str, ...] = SPECIAL) -> FastTokenizer:
    """A byte-level tokenizer with a few words, the special tokens and the added ones."""
    backend = tokenizers.Tokenizer(tokenizers.models.BPE())
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=320, initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    text = ["the name and the arguments", '{"name": "weather", "arguments": {"city": "Oslo"}}', "think think </thin"]
    backend.train_from_iterator(text * 3, trainer)
    backend.add_special_tokens(list(special))
    backend.add_tokens([tokenizers.AddedToken(token, normalized=False) for token in added])
    return FastTokenizer(backend.to_str())


def template_of(source: str, tokenizer: FastTokenizer) -> ChatTemplate:
    """A chat template beside a tokenizer, as transformers reads them."""
    backend = tokenizers.Tokenizer.from_str(tokenizer.json)
    whole: Any = transformers.PreTrainedTokenizerFast
    return ChatTemplate(whole(tokenizer_object=backend, chat_template=source, eos_token=END))


def control_tokens_of(tokenizer: FastTokenizer, template: str = CHATML) -> ControlTokens:
    return ControlTokens(tokenizer, template)


def pipeline_of(source: str = CHATML, tokenizer: FastTokenizer | None = None, **settings: Any) -> ChatPipeline:
    """A pipeline over a template and a small tokenizer."""
    tokenizer = tokenizer or tokenizer_of(*ADDED)
    max_model_len = settings.pop("max_model_len", 4096)
    return ChatPipeline(
        "tiny", template_of(source, tokenizer), tokenizer, max_model_len, [token_id(tokenizer, END)], **settings
    )


def token_id(tokenizer: FastTokenizer, token: str) -> int:
    (found,) = tokenizer.encode(token)
    return found


def user(text: str) -> content_pb2.Message:
    return message(content_pb2.ROLE_USER, text)


def message(role: content_pb2.Role, *texts: str, **fields: Any) -> content_pb2.Message:
    return content_pb2.Message(role=role, content=[content_pb2.ContentPart(text=text) for text in texts], **fields)


def function(name: str, parameters: str = "", **fields: Any) -> tool_pb2.Tool:
    return tool_pb2.Tool(function=tool_pb2.FunctionDefinition(name=name, parameters=parameters, **fields))


def request_of(*messages: content_pb2.Message, **fields: Any) -> chat_pb2.ChatRequest:
    return chat_pb2.ChatRequest(model="tiny", messages=messages or [user("hello")], **fields)


def outputs_of(
    tokenizer: FastTokenizer,
    token_ids: Sequence[int],
    *,
    cuts: Iterable[int] = (),
    stopping: StopParams = StopParams(),  # noqa: B008  immutable
    reason: FinishReason = FinishReason.END_OF_TEXT,
    hides_special: bool = True,
    choice_index: int = 0,
) -> Iterator[GenerationOutput]:
    """What the engine tells of these tokens, one output from each cut to the next; the last token ends the text.

    Without cuts there is one output a token. Each token has the logprob -1 - its place.
    """
    detokenizer = Detokenizer(tokenizer, stopping.stop, skip_special_tokens=hides_special)
    cuts = list(cuts) or list(range(1, len(token_ids)))
    begin = 0
    for end in [*cuts, len(token_ids)]:
        text, taken = "", begin
        finish = None
        for place in range(begin, end):
            taken += 1
            is_last = place == len(token_ids) - 1
            if not (is_last and reason is FinishReason.END_OF_TEXT):
                text += detokenizer.append(token_ids[place])
            if detokenizer.stop_sequence is not None:
                finish = FinishReason.STOP_SEQUENCE
                break
            if is_last:
                finish = reason
                text += detokenizer.flush()
        yield GenerationOutput(
            choice_index,
            token_ids=tuple(token_ids[begin:taken]),
            token_times=[float(place) for place in range(begin, taken)],
            text=text,
            timings=Timings(0.0, 0.0, 0.0, None if finish is None else float(taken - 1)),
            batch_size=1,
            logprobs=[TokenLogprob(token_ids[place], -1.0 - place) for place in range(begin, taken)],
            finish_reason=finish,
            stop_sequence=detokenizer.stop_sequence,
        )
        if finish is not None:
            return
        begin = end


def events_of(chat: PreparedChat, outputs: Iterable[GenerationOutput]) -> list[chat_pb2.StreamChatResponse]:
    return [event for output in outputs for event in chat.events(output)]


def allowed_ids(constraint: ConstraintState, tokenizer: FastTokenizer) -> list[int]:
    """The tokens that a constraint's mask allows next."""
    words = np.zeros((tokenizer.vocab_size + 31) // 32, dtype=np.int32)
    constraint.fill_mask(words)
    bits = np.unpackbits(words.view(np.uint8), bitorder="little")[: tokenizer.vocab_size]
    return [int(index) for index in np.nonzero(bits)[0]]


def babble(
    constraint: ConstraintState, tokenizer: FastTokenizer, end_id: int, rng: random.Random, max_tokens: int = 1500
) -> list[int]:
    """What a model without any sense says under a constraint, until that or the model ends it, the end included.

    It picks any allowed token; once it has said much it tends to what closes things. Fails past `max_tokens`.
    """
    closing = {tokenizer.encode(text)[0] for text in ('"', "}", "]", "0")} | {end_id}
    said: list[int] = []
    while not constraint.is_finished():
        assert len(said) < max_tokens, "never ends: " + tokenizer.decode(said)
        allowed = allowed_ids(constraint, tokenizer)
        assert allowed, "nothing may follow " + tokenizer.decode(said)
        wanted = [token for token in allowed if token in closing] if len(said) > rng.randrange(100) else []
        chosen = rng.choice(wanted if wanted and rng.random() < 0.8 else allowed)
        if chosen == end_id:
            break
        constraint.accept(chosen)
        said.append(chosen)
    return [*said, end_id]


def join(pieces: Iterable[Piece]) -> tuple[str, str, list[tuple[str, str]]]:
    """The thinking, the content and the calls that pieces tell."""
    reasoning = content = ""
    calls: list[tuple[str, str]] = []
    for piece in pieces:
        match piece:
            case Reasoning(text):
                reasoning += text
            case Content(text, _):
                content += text
            case CallStart(name):
                calls.append((name, ""))
            case CallArguments(text):
                calls[-1] = (calls[-1][0], calls[-1][1] + text)
    return reasoning, content, calls


def fold(events: Iterable[chat_pb2.StreamChatResponse]) -> chat_pb2.ChatResponse:
    """The whole answer that a stream tells."""
    folding = ChatFold()
    for event in events:
        folding.add(event)
    return folding.response
