"""What the OpenAPI document says beyond signatures: how requests are refused, and sent again.

Who has to send a key FastAPI knows by itself, from the schemes that `auth.py` depends on. That an
operation may be refused it does not know, since refusals are raised; nor that whatever changes
something for an agent may be sent under an Idempotency-Key, since that is looked at where the agent
is.
"""

from typing import Any

from fastapi import FastAPI

Operation = dict[str, Any]

REFUSAL = {
    "title": "Refusal",
    "type": "object",
    "required": ["detail"],
    "properties": {"detail": {"type": "string", "description": "Why."}},
}
WHY: dict[int | str, str] = {
    400: "The rules of the game do not allow it, or not now",
    401: "The API key is missing, or not valid",
    403: "Not for this caller",
    404: "There is no such thing",
    409: "Somebody was faster, or it was done already",
    429: "Too much of it, or too soon",
    503: "The database does not answer; try again",
}
ONCE = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Sent again under the same key, the request is done once and answered twice.",
    "schema": {"type": "string", "format": "uuid"},
}


def refusals(*codes: int) -> dict[int | str, Any]:
    """More ways to be refused, for the `responses` of a route."""
    return {code: refusal(WHY[code]) for code in codes}


def refusal(why: str) -> dict[str, Any]:
    """How a refusal looks."""
    schema = {"$ref": "#/components/schemas/Refusal"}
    return {"description": why, "content": {"application/json": {"schema": schema}}}


UNREAD: dict[int | str, Any] = {428: refusal("The dweller's context was not read")}
"""For the `responses` of routes on which a dweller acts."""


def complete(app: FastAPI) -> None:
    """From now on the document of the application says all this."""
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = plain()
            document["components"]["schemas"]["Refusal"] = REFUSAL
            for path, operations in document["paths"].items():
                for method, operation in operations.items():
                    _complete(path, method, operation)
        return plain()

    app.openapi = openapi  # type: ignore[method-assign]  # as FastAPI's documentation does


def _complete(path: str, method: str, operation: Operation) -> None:
    changes = method != "get"
    secured = "security" in operation
    if changes and secured:
        operation.setdefault("parameters", []).append(ONCE)
    codes = {503} | ({404} if "{" in path else set()) | ({401} if secured else set())
    if changes:
        codes |= {400, 409, 429} | ({403, 404} if secured else set())
    answers = operation["responses"]
    answers |= {str(code): refusal(WHY[code]) for code in codes}
    operation["responses"] = dict(sorted(answers.items()))
