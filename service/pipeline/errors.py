"""Why a chat request can't be served.

Owns the reasons that callers see in `ErrorInfo.reason`. `field` is a path of proto names such as
`messages[2].content[0].image_url`. Any thread may raise these.
"""

from __future__ import annotations

from typing import ClassVar

from service.engine.errors import InvalidRequest


class UnsupportedModality(InvalidRequest):
    """A content part is of a kind that the model can't take."""

    reason: ClassVar[str] = "UNSUPPORTED_MODALITY"


class TemplateRefused(InvalidRequest):
    """The model's chat template refuses the conversation; the message has the template's own words."""

    reason: ClassVar[str] = "TEMPLATE_REFUSED"


class UnsupportedConstraint(InvalidRequest):
    """An output constraint, or a tool's schema, can't be enforced or takes too long to compile."""

    reason: ClassVar[str] = "UNSUPPORTED_CONSTRAINT"


class UnsupportedFeature(InvalidRequest):
    """The model lacks what the request asks for."""

    reason: ClassVar[str] = "UNSUPPORTED_FEATURE"
