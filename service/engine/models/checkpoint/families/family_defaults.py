"""What a type's config.json may leave out, and how the rest follows from what it states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

Fields: TypeAlias = dict[str, Any]


STATED: Final = (
    *("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
    "max_position_embeddings",
)


class UncommonConfigError(Exception):
    """A config.json has a value that only transformers' own class reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyDefaults:
    """The defaults of a type: those of transformers' class of the same type."""

    fields: Mapping[str, Any] = field(default_factory=dict)  # by name; other names are absent
    aliases: Mapping[str, str] = field(default_factory=dict)  # second names of fields
    complete: Callable[[Fields], None] = lambda _: None  # sets the fields that follow from others
    rope_theta: float = 10_000.0
    rotated_share: float | None = None  # of a head; None: not a parameter of the type
    rope: Mapping[str, Any] = field(default_factory=dict)  # parameters if a file has none; by kind with local_theta
    theta_name: str = "rope_theta"
    share_name: str = "partial_rotary_factor"
    local_theta: float | None = None  # base of sliding layers, which have parameters of their own; None: one for all
    local_theta_name: str = ""
    has_own_sizes: bool = False  # `complete` reads per_layer_config
    kinds: tuple[str, ...] = ("full_attention", "sliding_attention")  # of layers, in layer_types
    stated: tuple[str, ...] = STATED  # positive integers that a file must have


def every_nth_is_full(period: int, name: str = "") -> Callable[[Fields], None]:
    """Return a rule for layers that slide except each `period`-th; the field `name` may give another period."""

    def complete(fields: Fields) -> None:
        if fields["layer_types"] is None:
            each = fields.get(name, period)
            if type(each) is not int or each < 1:
                raise UncommonConfigError(name)
            fields["layer_types"] = [
                "sliding_attention" if (i + 1) % each else "full_attention" for i in range(fields["num_hidden_layers"])
            ]

    return complete


def first_of_four_is_full(fields: Fields) -> None:
    """Set the types of layers that slide except the first of each four."""
    if fields["layer_types"] is None:
        fields["layer_types"] = [
            "sliding_attention" if i % 4 else "full_attention" for i in range(fields["num_hidden_layers"])
        ]


def slides_from(fields: Fields, first: int) -> None:
    """Set the types of layers that slide from the layer `first` on if there is a window."""
    if fields["layer_types"] is None:
        fields["layer_types"] = [
            "sliding_attention" if fields["sliding_window"] is not None and i >= first else "full_attention"
            for i in range(fields["num_hidden_layers"])
        ]
