"""What is told of a schema that can't be enforced."""

from __future__ import annotations

from service.engine.constraints.refusal import blame


def test_property_that_is_called_like_a_keyword_is_not_blamed() -> None:
    """A refusal names the keyword, not a property of the same name."""
    schema = '{"properties": {"not": {"not": {}}}}'
    assert "at /properties/not/not " in blame(schema, 'Unimplemented keys: ["not"]')


def test_refusal_without_a_keyword_is_told_as_it_is() -> None:
    """What can't be traced keeps the compiler's words."""
    assert blame("{}", "Unsatisfiable schema: x\nmore") == "Unsatisfiable schema: x"
