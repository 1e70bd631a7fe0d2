"""The chat page in a real browser: conversations, untrusted text of models, and accessibility."""

import json
import subprocess
from typing import Any

import httpx
import pytest

from gateway.openapi.document import build_document
from gateway.routes.dialects.surfaces import SURFACES
from tests.e2e.faults.disconnects import until_call_ended
from tests.e2e.guarded import Guarded
from tests.e2e.pages.browser import command_of, observations
from tests.e2e.stack import ROOT, Stack
from tests.waiting import GUARD_S

SCRIPT = "chat_page.mjs"
ANSWER = "I am sluice-demo, the small demo model of the sluice service."


def seen(stack: Stack, scenario: str, **environment: str) -> Any:
    """Run a scenario in a browser and return its observations."""
    return observations(command_of(SCRIPT, f"{stack.url}/", scenario), **environment)


def test_conversation_is_streamed_and_kept_over_a_reload(stack: Stack) -> None:
    """Two turns are shown with their speeds, are kept over a reload, and no other host is contacted."""
    found = seen(stack, "conversation")
    assert found["messages"] == [
        "Who are you?",
        ANSWER,
        "What is the capital of France?",
        "The capital of France is Paris.",
    ]
    assert all("first token after" in each and "tokens" in each for each in found["facts"])
    assert found["kept"] == found["again"] == found["messages"]
    assert found["fresh"] == 0
    assert found["errors"] == []
    assert [url for url in found["asked"] if not url.startswith((f"{stack.url}/", "data:"))] == []


def test_edited_questions_and_new_answers_are_branches(stack: Stack) -> None:
    """Both branches of an edited question or a new answer can be shown again."""
    found = seen(stack, "branches")
    assert found["cancelled"] == ["First question?"]
    assert found["widths"][0] > 0.9 * found["widths"][1]
    assert found["edited"] == ["Second question\nof two lines?"]
    assert found["first"] == ["First question?"]
    question, answer = found["turns"]
    assert "1 of 2" in question
    assert "2 of 2" in answer
    assert found["errors"] == []


def test_stopping_an_answer_stops_the_engine(stack: Stack) -> None:
    """Escape ends the answer and keeps its text, and the engine stops."""
    is_stopped = False
    while not is_stopped:  # an answer that has ended before the engine is held proves nothing
        num_ended = len(stack.generation_lines())
        with subprocess.Popen(
            command_of(SCRIPT, f"{stack.url}/", "stop"),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stdout.readline() == "answering\n"
            with stack.engine_held():
                process.stdin.write("held\n")
                process.stdin.flush()
                found = json.loads(process.stdout.readline())
                until_call_ended(stack, num_ended)
                is_stopped = '"status":"CANCELLED"' in stack.generation_lines()[-1]
    assert "ended by your stop" in found["facts"][0]
    assert found["length"] > 20
    assert found["errors"] == []
    stack.until_idle()


def test_untrusted_text_does_not_become_markup(stack: Stack) -> None:
    """Text of a model or a user runs no script, creates no unexpected element or attribute, and loads nothing."""
    found = seen(stack, "hostile")
    assert set(found["names"]) <= {"p", "a", "code", "pre", "table", "thead", "tbody", "tr", "th", "td"}
    assert set(found["attributes"]) <= {"href", "rel", "target"}
    assert all(link.startswith("https://example.com/") for link in found["links"])
    assert found["hit"] is None
    assert found["hitByQuestion"] is None
    assert found["question"].startswith("<img src=x onerror=window.hit=1>\n<script>")
    assert [url for url in found["asked"] if "example.com" in url] == []
    assert found["deepest"] <= 64  # thousands of markers neither block nor break the page


def test_markdown_is_rendered(stack: Stack) -> None:
    """Markdown as models write it is rendered, including unfinished text."""
    assert seen(stack, "markdown") == {
        "inline": "<p>a <strong>b</strong> <em>c</em> <code>d*e*</code> <del>f</del> snake_case_name 2*3*4</p>",
        "code": '<pre tabindex="0" data-language="py"><code>x = \'&lt;b&gt;\'</code></pre>',
        "unfinished": '<p>text</p><pre tabindex="0"><code>x = 1</code></pre>',
        "list": '<ol start="1"><li>one</li><li>two<ul><li>deep</li><li>deeper</li></ul></li></ol><p>after</p>',
        "table": "<table><thead><tr><th>a</th><th>b</th></tr></thead>"
        "<tbody><tr><td>1</td><td><code>2</code></td></tr></tbody></table>",
        "heading": "<h3>Title</h3><p>text\nmore</p>",
        "quote": "<blockquote><p>said\nso</p></blockquote>",
        "link": '<p>see <a href="https://a.example/x_(y)" rel="noopener noreferrer" target="_blank">'
        "https://a.example/x_(y)</a>. and "
        '<a href="https://b.example" rel="noopener noreferrer" target="_blank">z</a></p>',
        "formula": "<p>so <math><msubsup><mi>x</mi><mn>1</mn><mn>2</mn></msubsup><mo>=</mo>"
        "<mfrac><mi>a</mi><mn>2</mn></mfrac></math> and <math><msqrt><mi>α</mi></msqrt></math></p>",  # noqa: RUF001
        "block": '<p><math display="block"><munderover><mo>∑</mo><mrow><mi>i</mi><mo>=</mo><mn>1</mn></mrow>'
        "<mi>n</mi></munderover><mi>i</mi></math></p>",
        "prices": "<p>from $5 to $6, or $ 7</p>",
        "unknown": '<p><math display="block"><mtext>\\nothing</mtext><mrow><mo>&lt;</mo><mi>b</mi><mo>&gt;</mo></mrow>'
        "</math></p>",
    }


def test_code_is_highlighted_and_can_be_copied(stack: Stack) -> None:
    """Comments, strings, numbers and keywords are marked, and a button copies the code unchanged."""
    found = seen(stack, "code")
    assert found["spans"] == [
        ["comment", "# one"], ["keyword", "return"], ["string", "'two'"], ["number", "3"],
        ["string", '"a"'], ["string", '"#1"'],
    ]  # fmt: skip
    assert found["copied"] == found["text"]
    assert found["errors"] == []


def test_bar_shows_the_progress_of_a_long_prompt(stack: Stack) -> None:
    """It appears once the prompt is expected to take longer than a second, and disappears when it is complete."""
    assert seen(stack, "progress") == {
        "bars": [
            [None, "", ""],
            [200, "200 of 1000 tokens of the prompt", ""],
            [600, "600 of 1000 tokens of the prompt", ""],
            [None, "", ""],
            [None, "", "Hi"],
        ],
        "errors": [],
    }


def test_an_answer_continues_after_a_reload(stack: Stack) -> None:
    """A reload keeps the question and the partial answer, and the whole answer is that of an unbroken call."""
    found = seen(stack, "reload")
    assert found["questions"] == ["Go on for long."]
    assert found["node"]["content"] == found["whole"]
    assert found["node"]["finish_reason"] == "length"
    assert found["errors"] == []


def test_an_answer_that_the_server_ends_can_be_continued(stack: Stack) -> None:
    """A server that stops or is busy ends the stream, and the rest is received later; other errors are final."""
    continued = {"content": "Par", "event": "event-0", "canContinue": True, "after": "event-0"}
    assert seen(stack, "failures") == {
        "server_error": continued,
        "rate_limit_error": continued,
        "invalid_request_error": {"content": "Par", "event": None, "canContinue": False},
    }


def test_tabs_keep_each_others_conversations(stack: Stack) -> None:
    """A tab that is reloaded keeps what another one has stored since it was opened."""
    assert seen(stack, "tabs") == {"questions": ["Left?", "Right?"], "listed": 2}


def test_an_answer_is_received_by_one_tab(stack: Stack) -> None:
    """A second tab shows the answer of the first one without a call of its own, and continues it if that one closes."""
    assert seen(stack, "sharedAnswer") == {
        "problem": "Another tab is answering in this conversation.",
        "question": "Me, too?",
        "calls": 0,
        "before": 0,
        "answers": ["shared", "continued"],
    }


def test_page_asks_for_a_key_if_the_server_requires_one(guarded: Guarded) -> None:
    """The page asks for a key where the conversation is; its errors are sentences, and keep the question."""
    found = seen(guarded.stack, "key", SLUICE_API_KEY=guarded.keys["team"])
    assert found["problem"] == ""
    assert found["rejected"].startswith("This server needs a valid key: ")
    assert found["messages"] == ["Who are you?", ANSWER]
    assert found["offline"] == "The server can't be reached. Check that it is running, and try again."
    assert found["question"] == "Are you there?"


def test_settings_of_the_page_take_effect(stack: Stack) -> None:
    """Settings are checked before sending and take effect, code snippets run, and keys are stored only on request."""
    found = seen(stack, "settings")
    assert found["range"].startswith("Temperature: ")
    assert "".join(token for token, _ in found["tokens"]) == ANSWER
    assert {lines for _, lines in found["tokens"]} == {4}  # the token and three alternatives
    assert json.loads(found["object"])["a"] in {True, False}
    assert found["broken"].startswith("JSON schema of the answer: ")
    command = found["code"]["curl"]
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=GUARD_S, check=True)  # noqa: S602  as users paste it
    assert done.stdout.endswith("data: [DONE]\n\n")
    compile(found["code"]["python"], "snippet", "exec")
    assert "sluice.v1.ChatService/StreamChat" in found["code"]["grpc"]
    assert (found["unasked"], found["kept"]) == (False, True)
    assert found["errors"] == []


def test_page_is_accessible(stack: Stack) -> None:
    """The page is accessible.

    Axe finds no violation in light, dark and phone layouts, and all controls work by keyboard.
    """
    found = seen(stack, "access")
    assert {name: each for name, each in found["violations"].items() if each} == {}
    assert {"new", "model", "show-settings", "question", "send"} <= set(found["reached"])


def test_ranges_of_the_page_equal_the_openapi_documents() -> None:
    """Each number's bounds on the page are those of the OpenAPI description."""
    document = build_document(SURFACES)
    page = (ROOT / "gateway/page/static/index.html").read_text()
    fields = document["components"]["schemas"]["ChatCompletionBody"]["properties"]
    for name in ("temperature", "top_p", "frequency_penalty", "presence_penalty", "min_p"):
        bounds = next(each for each in fields[name]["anyOf"] if "maximum" in each)
        lowest = bounds.get("minimum", bounds.get("exclusiveMinimum"))
        assert f'name="{name}" type="number" min="{lowest:g}" max="{bounds["maximum"]:g}"' in page


@pytest.mark.parametrize("path", ["/", "/page/app.js"])
def test_files_have_a_security_policy_and_are_cached(stack: Stack, path: str) -> None:
    """Files have a strict content security policy, and unchanged ones are not sent again."""
    first = httpx.get(f"{stack.url}{path}", timeout=GUARD_S)
    assert first.status_code == 200
    assert "default-src 'none'" in first.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in first.headers["content-security-policy"]
    again = httpx.get(f"{stack.url}{path}", headers={"if-none-match": first.headers["etag"]}, timeout=GUARD_S)
    assert (again.status_code, again.content) == (304, b"")
