"""The table of docs/decisions.md that compares the contract with Google's API improvement proposals."""

from __future__ import annotations

import re
from collections.abc import Iterator

import sluice.v1
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import FieldDescriptor, FileDescriptor, MethodDescriptor

from tools.docs.docs_site import ROOT

STANDARD = re.compile(r"(Get|List|Create|Update|Delete|Stream)[A-Z]")
NAME = re.compile(r"\b(?:[A-Z][a-z]+)+\b")
CODE = re.compile(r"`(\w+)`")
PREPOSITION = re.compile(r"(^|_)(after|before|until|with|of|in|by|for|at|from|to|per|on|since|without)(_|$)")
WITHOUT_PAGES = "ListReceiptKeys"


def row(numbers: str) -> str:
    """Return the row of the proposals with these numbers, in version 1."""
    lines = (ROOT / "docs" / "decisions.md").read_text().splitlines()
    (line,) = [each for each in lines if each.startswith(f"| {numbers} ")]
    return line.split(" | ")[1]


def files() -> Iterator[FileDescriptor]:
    """Yield the files of the contract."""
    pool = descriptor_pool.Default()
    for path in sorted((ROOT / "proto" / "sluice" / "v1").glob("*.proto")):
        __import__(f"{sluice.v1.__name__}.{path.stem}_pb2")
        yield pool.FindFileByName(f"sluice/v1/{path.name}")


def methods() -> list[MethodDescriptor]:
    """Return the methods of the contract."""
    return [method for file in files() for service in file.services_by_name.values() for method in service.methods]


def fields() -> list[FieldDescriptor]:
    """Return the fields of the contract's messages."""
    messages = [message for file in files() for message in file.message_types_by_name.values()]
    messages += [nested for message in messages for nested in message.nested_types]
    return [field for message in messages for field in message.fields]


def test_custom_methods_are_complete() -> None:
    """Each method without a standard verb is listed, and each listed one exists."""
    custom = {method.name for method in methods() if not STANDARD.match(method.name)}
    assert set(NAME.findall(row("136"))) & {method.name for method in methods()} == custom


def test_fields_with_prepositions_are_complete() -> None:
    """Each is listed, `after` once for all names that have it."""
    found = {field.name for field in fields() if PREPOSITION.search(field.name)}
    listed = set(CODE.findall(row("140")))
    assert {name for name in found if "after" not in name and name != "in_progress"} <= listed
    assert listed - {"after", "n", "id", "str"} <= found


def test_names_of_times_are_complete() -> None:
    """Each name of a point in time, and each number of seconds that a request sets, is listed."""
    listed = set(CODE.findall(row("142")))
    times = {each.name for each in fields() if each.message_type and each.message_type.name == "Timestamp"}
    assert times <= listed
    numbers = {each.name for each in fields() if each.name.endswith("_seconds") and "token" not in each.name}
    assert numbers <= listed


def test_lists_have_pages() -> None:
    """Every list but one has a size and a token."""
    lists = [method for method in methods() if method.name.startswith("List")]
    without = [each.name for each in lists if "page_size" not in each.input_type.fields_by_name]
    assert without == [WITHOUT_PAGES]
    assert WITHOUT_PAGES in row("158")
    paged = [each for each in lists if each.name != WITHOUT_PAGES]
    assert all("page_token" in each.input_type.fields_by_name for each in paged)
    assert all("next_page_token" in each.output_type.fields_by_name for each in paged)
