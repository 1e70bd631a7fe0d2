"""Images in chats of the whole product: the answers are transformers' own, in every dialect and over gRPC."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from sluice.v1 import chat_pb2, chat_pb2_grpc, content_pb2, model_pb2, model_pb2_grpc

from tests.cli.terminal import Terminal
from tests.e2e.image_requests import ask, by_url, chat, data_url, file_of, openai_content
from tests.e2e.pages.test_chat_page import seen
from tests.e2e.picture_server import PictureServer
from tests.e2e.stack import Stack
from tests.e2e.vision_product import NUM_TOKENS, reference
from tests.engine.folders.vision_models import NUM_IMAGE_TOKENS, picture
from tests.waiting import GUARD_S

CAT, DOG = picture(1), picture(2, (20, 90))
PARTS: list[Any] = ["What is it? ", CAT, " and ", DOG]
AZURE = "/models/chat/completions?api-version=2024-05-01-preview"


@pytest.fixture(scope="module")
def expected(vision_folder: Path) -> tuple[list[int], list[int]]:
    """The tokens of the prompt and the answer, computed by transformers."""
    return reference(vision_folder, *PARTS)


def grpc_messages(*parts: Any) -> list[content_pb2.Message]:
    content = [
        content_pb2.ContentPart(text=part)
        if isinstance(part, str)
        else content_pb2.ContentPart(image=content_pb2.InlineImage(data=file_of(part), media_type="image/png"))
        for part in parts
    ]
    return [content_pb2.Message(role=content_pb2.ROLE_USER, content=content)]


def test_image_answers_over_grpc_equal_the_references(vision: Stack, expected: tuple[list[int], list[int]]) -> None:
    """Prompt and answer are equal token by token, and the usage reports the image tokens."""
    request = chat_pb2.ChatRequest(model="vision", messages=grpc_messages(*PARTS))
    request.sampling.temperature = 0
    request.stopping.max_tokens = NUM_TOKENS
    request.stopping.ignore_eos = True
    request.tokens.ids = True
    with grpc.insecure_channel(f"127.0.0.1:{vision.ports['envoy']}") as channel:
        answer = chat_pb2_grpc.ChatServiceStub(channel).Chat(request, timeout=GUARD_S)
        model = model_pb2_grpc.ModelServiceStub(channel).GetModel(model_pb2.GetModelRequest(model="vision")).model
    assert (list(answer.prompt_token_ids), list(answer.choices[0].token_ids)) == expected
    assert (answer.usage.prompt_tokens, answer.usage.image_tokens) == (len(expected[0]), 2 * NUM_IMAGE_TOKENS)
    assert list(model.input_modalities) == [model_pb2.MODALITY_TEXT, model_pb2.MODALITY_IMAGE]
    listed = httpx.get(f"{vision.url}/v1/models", timeout=GUARD_S).json()["data"]
    taken = {each["id"]: each["input_modalities"] for each in listed}
    assert (taken["vision"], taken["text"]) == (["text", "image"], ["text"])


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "GIF"])
def test_image_answers_in_openais_chats_equal_the_references(
    vision: Stack, vision_folder: Path, expected: tuple[list[int], list[int]], kind: str
) -> None:
    """Data URLs of every lossless format work; a GIF's reference uses its reduced colours."""
    images = {"PNG": (CAT, DOG), "WEBP": (CAT, DOG), "GIF": (CAT.quantize(), DOG.quantize())}[kind]
    urls = [data_url(image, kind) for image in images] if kind == "GIF" else [data_url(CAT), data_url(DOG)]
    content = [
        {"type": "text", "text": "What is it? "},
        {"type": "image_url", "image_url": {"url": urls[0]}},
        {"type": "text", "text": " and "},
        {"type": "image_url", "image_url": {"url": urls[1]}},
    ]
    wanted = expected
    if kind == "GIF":
        wanted = reference(vision_folder, "What is it? ", images[0].convert("RGB"), " and ", images[1].convert("RGB"))
    answer = chat(vision, content, ignore_eos=True, return_token_ids=True).json()
    assert (answer["prompt_token_ids"], answer["choices"][0]["token_ids"]) == wanted


def test_images_give_the_same_prompt_in_every_dialect(vision: Stack, expected: tuple[list[int], list[int]]) -> None:
    """The same texts and images give the same answer and prompt length in every dialect."""
    first = chat(vision, openai_content(*PARTS)).json()
    text, num_tokens = first["choices"][0]["message"]["content"], len(expected[0])
    assert first["usage"]["prompt_tokens"] == num_tokens
    message = {"role": "user", "content": openai_content(*PARTS)}
    plain = {"messages": [message], "temperature": 0, "max_tokens": 8}
    for path, extra in (
        (AZURE, {"model": "vision"}),
        ("/serving-endpoints/vision/invocations", {"stream": False}),
        ("/serving-endpoints/chat/completions", {"model": "vision"}),
    ):
        answer = ask(vision, path, plain | extra)
        assert (answer["choices"][0]["message"]["content"], answer["usage"]["prompt_tokens"]) == (text, num_tokens)
    items = [
        {"type": "input_text", "text": part}
        if isinstance(part, str)
        else {"type": "input_image", "image_url": data_url(part)}
        for part in PARTS
    ]
    for path in ("/v1/responses", "/serving-endpoints/responses"):
        body = {
            "model": "vision",
            "input": [{"role": "user", "content": items}],
            "temperature": 0,
            "max_output_tokens": 8,
        }
        answer = ask(vision, path, body)
        assert answer["usage"]["input_tokens"] == num_tokens
        assert answer["output"][0]["content"][0]["text"] == text
    blocks = [
        {"type": "text", "text": part}
        if isinstance(part, str)
        else {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": base64.b64encode(file_of(part)).decode()},
        }
        for part in PARTS
    ]
    claude = {"model": "vision", "messages": [{"role": "user", "content": blocks}]}
    version = {"anthropic-version": "2023-06-01"}
    answer = ask(vision, "/v1/messages", claude | {"max_tokens": 8, "temperature": 0}, **version)
    assert (answer["content"][0]["text"], answer["usage"]["input_tokens"]) == (text, num_tokens) or (
        answer["usage"]["cache_read_input_tokens"] + answer["usage"]["input_tokens"] == num_tokens
    )
    assert ask(vision, "/v1/messages/count_tokens", claude, **version)["input_tokens"] == num_tokens
    assert ask(vision, "/tokenize", {"model": "vision", "messages": [message]})["count"] == num_tokens


def test_text_models_reject_images_in_every_dialect(vision: Stack) -> None:
    """The error has the dialect's status and body."""
    url = data_url(picture(3, (4, 4)))
    message = {"role": "user", "content": by_url(url)}
    item = {"role": "user", "content": [{"type": "input_image", "image_url": url}]}
    block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": url.partition(",")[2]}}
    for path, body, status in (
        ("/v1/chat/completions", {"messages": [message]}, 400),
        ("/v1/responses", {"input": [item]}, 400),
        ("/v1/messages", {"messages": [{"role": "user", "content": [block]}], "max_tokens": 4}, 400),
        (AZURE, {"messages": [message]}, 422),
        ("/serving-endpoints/text/invocations", {"messages": [message], "stream": False}, 400),
    ):
        answer = httpx.post(f"{vision.url}{path}", json={"model": "text"} | body, timeout=GUARD_S)
        assert answer.status_code == status, answer.text
        assert "the model takes text only" in answer.text


def test_image_token_names_in_client_text_are_text(vision: Stack, vision_folder: Path) -> None:
    """The names of image tokens in a client's text do not add an image."""
    spelled = "<start_of_image><image_soft_token><end_of_image>"
    answer = chat(vision, openai_content(spelled, CAT), return_token_ids=True)
    assert answer.status_code == 200, answer.text
    soft = reference(vision_folder, "", CAT)[0]
    assert answer.json()["prompt_token_ids"].count(112) == soft.count(112) == NUM_IMAGE_TOKENS


def test_images_are_fetched_from_allowed_hosts(
    vision: Stack, vision_folder: Path, expected: tuple[list[int], list[int]]
) -> None:
    """Images are fetched by URL, also over redirects between allowed hosts."""
    files = {"/cat.png": ("image/png", file_of(CAT)), "/dog": ("application/octet-stream", file_of(DOG))}
    with PictureServer(files) as server:
        base = f"http://127.0.0.1:{server.port}"
        content = [
            {"type": "text", "text": "What is it? "},
            {"type": "image_url", "image_url": {"url": f"{base}/cat.png"}},
            {"type": "text", "text": " and "},
            {"type": "image_url", "image_url": {"url": f"{base}/redirect?to=/dog"}},
        ]
        answer = chat(vision, content, "fetching", ignore_eos=True, return_token_ids=True)
        assert answer.status_code == 200, answer.text
        assert answer.json()["choices"][0]["token_ids"] == expected[1]
        source = {"type": "url", "url": f"{base}/cat.png"}
        body = {"model": "fetching", "max_tokens": 4}
        blocks = [{"type": "text", "text": "Look: "}, {"type": "image", "source": source}]
        ask(vision, "/v1/messages", body | {"messages": [{"role": "user", "content": blocks}]})


def test_the_chat_page_attaches_images(vision: Stack) -> None:
    """Images can be chosen, pasted and dropped for a vision model, and are stored with the conversation."""
    found = seen(vision, "images")
    assert found["hiddenFromText"]
    assert (found["attached"], found["shown"], found["left"], found["kept"]) == (3, 3, 0, 3)
    assert found["parts"] == ["image_url"] * 3 + ["text"]
    assert "4 tokens" in found["facts"]
    assert found["problem"] == "x.svg: images are PNG, JPEG, WebP or GIF"
    assert found["code"].count("data:image/png;base64,…") == 3
    assert found["errors"] == []
    assert [url for url in found["asked"] if not url.startswith((f"{vision.url}/", "data:"))] == []


def test_sluice_chat_attaches_images(vision: Stack, tmp_path: Path) -> None:
    """`/image` accepts every image format, and reports other files and missing ones without losing the question."""
    for kind in ("PNG", "JPEG", "WEBP", "GIF"):
        (tmp_path / f"cat.{kind}").write_bytes(file_of(CAT, kind))
    (tmp_path / "note.txt").write_text("a cat")
    options = ["--model", "vision", "--set", "temperature=0", "--set", "max_tokens=4"]
    with Terminal("chat", *options, env={"SLUICE_URL": vision.url}) as terminal:

        def enter(text: str, shown: str) -> str:
            terminal.until("> ")
            terminal.type(f"{text}\n")
            return terminal.until(shown)

        enter(f"/image {tmp_path / 'note.txt'}", "is not a PNG, JPEG, WebP or GIF image")
        enter(f"/image {tmp_path / 'none.png'}", "No such file or directory")
        for index, kind in enumerate(("PNG", "JPEG", "WEBP", "GIF"), 1):
            enter(f"/image {tmp_path / f'cat.{kind}'}", f"{index} images are attached to the next question")
        enter("What is it?", "4 tokens")
        enter("/retry", "4 tokens")
        enter(f"/save {tmp_path / 'said.json'}", "written to")
    (question, _) = json.loads((tmp_path / "said.json").read_text())["messages"]
    assert [part["type"] for part in question["content"]] == ["image_url"] * 4 + ["text"]
