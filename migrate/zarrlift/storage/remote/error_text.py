"""Converts a store's error to a plain sentence.

Clients include XML, request ids, durations and class names in the text of an error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from zarrstack.core.errors import StorageError, UsageError, ZarrstackError

from ..redact import redact, redact_foreign

_NO_BUCKET: Final = re.compile(
    r"NoSuchBucket|ContainerNotFound|specified (?:bucket|container) does not exist"
)
"""Messages of S3, Google and Azure; as codes, or for clients that give only the message (s3fs 2026.9)."""
NO_ANSWER: Final = "the store does not answer"
_UNANSWERED: Final = re.compile(
    r"error sending request|Could not connect to the endpoint|Cannot connect to host|Connection refused"
    r"|dispatch failure"
)
"""Messages of obstore 0.12, botocore 1.43, aiohttp 3, the system, and Icechunk 1.1."""
CONFLICT: Final = re.compile(r"\b(409|Conflict|ConditionalRequestConflict)\b")
"""Messages of S3 while another request for the same key is in progress
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html).
"""
UNKNOWN_REQUEST: Final = re.compile(
    r"\b(501|NotImplemented|NotImplementedError|NotSupportedError|TypeError|ParamValidationError)\b"
)
"""Messages of libraries and stores for an unsupported request; s3fs converts it to ENOSYS."""
_TRACE: Final = re.compile(r"\n\nDebug source|\n  \||\n\ncontext:")
"""Where messages of obstore continue with pages of debug output, those of Icechunk 1 and 2 with a trace.

Icechunk 1 begins with an "x" besides.
"""
_ADDRESS: Final = re.compile(r"\bhttps?://[^/\s\"'?]+|(?<=\bhost )\S+")
_STATUS: Final = re.compile(r"status code: (\d{3}[^:<]*)")
_CODE: Final = re.compile(r"<Code>([^<]*)</Code>")
_MESSAGE: Final = re.compile(r"<Message>([^<\n]*)")
"""Its first line; Azure adds others with the id of the request and the time."""
_DENIED: Final = re.compile(r"\b(401 Unauthorized|403 Forbidden|Forbidden|Access Denied|AccessDenied)\b")
"""Messages of obstore, and of s3fs 2026.9, which omits the status."""
_MAY_NOT: Final = (
    "Access is denied: the credentials have no permission for this, or there are none for it."
    " Check the bucket's name, the key or profile, and its policies; a public bucket needs anon=true."
)
_EXPIRED: Final = "The credentials have expired: renew them, for example with aws sso login."
_REFUSALS: Final = {
    "InvalidAccessKeyId": "Access is denied: the store does not know the access key."
    " Check the key or profile, and the storage option endpoint_url.",
    "SignatureDoesNotMatch": "Access is denied: the secret key does not belong to the access key.",
    "AuthenticationFailed": "Access is denied: the key or token does not belong to the account.",
    "RequestTimeTooSkewed": "Access is denied: the clock of this machine is wrong.",
    **dict.fromkeys(("ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"), _EXPIRED),
    **dict.fromkeys(("InvalidToken", "RequestExpired"), _EXPIRED),
}
"""Error codes in words, of S3 (https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html) and of
Azure (https://learn.microsoft.com/rest/api/storageservices/common-rest-api-error-codes).
"""
_MOST: Final = 500
"""Maximum number of characters of an unrecognized message."""


def plainly(
    error: BaseException, what: str, key: str, url: str, secrets: Sequence[str] = ()
) -> ZarrstackError:
    """The error to raise for a store's `error` in the operation `what` on `key` of the place `url`."""
    text = _TRACE.split(str(error), maxsplit=1)[0].strip().removeprefix("x ")
    text = redact_foreign(redact(text, secrets))
    place = key or None
    if names_no_bucket(error):
        return UsageError(
            f"the bucket of {url} does not exist",
            advice="Create it, or correct its name or the storage option endpoint_url.",
        )
    if _UNANSWERED.search(text):
        address = _ADDRESS.search(text)
        return StorageError(
            NO_ANSWER,
            key=place,
            found=f"no connection to {address[0]}" if address else None,
            advice="Check the network, the name of the host and the storage option endpoint_url.",
        )
    advice = _refusal(text)
    status = _STATUS.search(text)
    if status is None:
        found = f"{type(error).__name__}: {text}" if text else type(error).__name__
        return StorageError(what, key=place, found=found[:_MOST], advice=advice)
    more = [match[1].rstrip(".") for match in (_CODE.search(text), _MESSAGE.search(text)) if match]
    match = "; ".join((f"HTTP status {status[1].strip()}", *more))[:_MOST]
    return StorageError(what, key=place, found=match, advice=advice)


def _refusal(text: str) -> str | None:
    """What an error about permissions means, and what to check; None for any other error."""
    for code, words in _REFUSALS.items():
        if code in text:
            return words
    return _MAY_NOT if _DENIED.search(text) else None


def names_no_bucket(error: BaseException) -> bool:
    """Whether an error reports a missing bucket, rather than a missing object."""
    return _NO_BUCKET.search(str(error)) is not None
