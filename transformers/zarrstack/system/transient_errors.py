"""Which errors may pass if one only waits: asked of the store, else read from the error.

Errors are recognised by what they carry (an HTTP status, an error code, an errno) and by the
names of their classes, so that no client library is imported to know its errors. Sources:

- HTTP status: RFC 9110, section 15 (https://www.rfc-editor.org/rfc/rfc9110#section-15), and
  RFC 6585, section 4, for 429.
- Error codes of S3 and of AWS services: boto3's guide, "Standard retry mode"
  (https://boto3.amazonaws.com/v1/documentation/api/latest/guide/retries.html), and the S3 API
  reference, "Error responses".
- s3fs makes OSErrors of botocore's and keeps the original as their cause: 500 becomes EREMOTEIO,
  503 EBUSY (s3fs/errors.py). gcsfs raises HttpError with `code`; adlfs passes azure-core's
  HttpResponseError on, with `status_code`; aiohttp's ClientResponseError has `status`.
- obstore 0.12 says both in words only: "Server returned non-2xx status code: 503 Service Unavailable", and
  "HTTP error: error sending request" where there was no answer.
"""

from __future__ import annotations

import errno
import re
import socket
from collections.abc import Iterator
from typing import Any, Final, Literal

STATUS: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Answers of a server that may be another one soon."""

CODES: Final = frozenset({
    "BandwidthLimitExceeded", "InternalError", "LimitExceededException", "OperationAborted",
    "PriorRequestNotComplete", "ProvisionedThroughputExceededException", "RequestLimitExceeded",
    "RequestThrottled", "RequestThrottledException", "RequestTimeout", "RequestTimeoutException",
    "ServerBusy", "ServiceUnavailable", "SlowDown", "ThrottledException", "Throttling",
    "ThrottlingException", "TooManyRequests", "TooManyRequestsException", "TransactionInProgressException",
})  # fmt: skip
"""Error codes that say the same in words."""

THROTTLED_STATUS: Final = frozenset({429, 503})
THROTTLED_CODES: Final = CODES - {
    "InternalError", "OperationAborted", "RequestTimeout", "RequestTimeoutException",
    "TransactionInProgressException",
}  # fmt: skip
"""Those of them that ask for fewer requests: S3's `SlowDown` has status 503, Google's answer is 429."""

_ERRNO_NAMES: Final = (
    "EAGAIN", "EBUSY", "ECONNABORTED", "ECONNREFUSED", "ECONNRESET", "EHOSTDOWN", "EHOSTUNREACH", "EINTR",
    "EMFILE", "ENETDOWN", "ENETRESET", "ENETUNREACH", "ENFILE", "ENOBUFS", "EPIPE", "EREMOTEIO",
    "ESHUTDOWN", "ESTALE", "ETIMEDOUT",
)  # fmt: skip
ERRNOS: Final = frozenset(getattr(errno, name) for name in _ERRNO_NAMES if hasattr(errno, name))
"""Errors of the operating system that come from a network or from a shortage of the moment."""

CLASSES: Final = {
    "aiohttp": {"ClientConnectionError", "ClientPayloadError"},
    "azure": {"ServiceRequestError", "ServiceResponseError", "IncompleteReadError"},
    "botocore": {
        "ConnectionError", "ConnectionClosedError", "ConnectTimeoutError", "EndpointConnectionError",
        "HTTPClientError", "IncompleteReadError", "ReadTimeoutError", "ResponseStreamingError",
    },
    "http": {"IncompleteRead", "RemoteDisconnected", "BadStatusLine"},
    "httpx": {"TransportError"},
    "requests": {"ChunkedEncodingError", "ConnectionError", "Timeout"},
    "urllib3": {"IncompleteRead", "NewConnectionError", "ProtocolError", "TimeoutError"},
}  # fmt: skip
"""Classes of broken and timed-out connections by the package that has them."""
NOT_CLASSES: Final = {
    "aiohttp": {"ClientConnectorCertificateError", "ClientConnectorSSLError", "ServerFingerprintMismatch"},
    "botocore": {"ProxyConnectionError", "SSLError"},
    "requests": {"SSLError"},
    "urllib3": {"SSLError"},
}
"""Their subclasses that will fail again: a certificate does not become valid by waiting."""

_IN_WORDS: Final = re.compile(r"status code: ([0-9]{3})\b")
_NO_ANSWER: Final = "HTTP error:"
"""What obstore's errors say."""

NOT_FOUND: Final = frozenset({"NoSuchKey", "NoSuchBucket", "NotFound", "BlobNotFound", "ContainerNotFound"})
_MISSING: Final = (FileNotFoundError, IsADirectoryError, NotADirectoryError)


def is_not_found(error: BaseException) -> bool:
    """Whether the error says that something is not there; such a one is never retried."""
    if isinstance(error, BaseExceptionGroup):
        return any(is_not_found(each) for each in error.exceptions)
    return isinstance(error, KeyError) or _verdict(error) == "missing"


def may_pass(error: BaseException) -> bool:
    """Whether the operation may succeed if it is repeated after a while."""
    if isinstance(error, BaseExceptionGroup):
        return all(may_pass(each) for each in error.exceptions)
    return _verdict(error) == "passes"


def is_throttled(error: BaseException) -> bool:
    """Whether the store says that it is asked too much."""
    if isinstance(error, BaseExceptionGroup):
        return any(is_throttled(each) for each in error.exceptions)
    return any(
        _status(each) in THROTTLED_STATUS or _code(each) in THROTTLED_CODES for each in _with_causes(error)
    )


def wanted_wait(error: BaseException) -> float:
    """Seconds that the server asked for with `Retry-After`; 0 when it did not, or gave a date.

    Source: RFC 9110, section 10.2.3.
    """
    for each in _with_causes(error):
        for headers in (getattr(each, "headers", None), _answer(each).get("HTTPHeaders")):
            try:
                pairs = {str(name).lower(): value for name, value in dict(headers or {}).items()}
                seconds = float(pairs.get("retry-after", 0))
            except (TypeError, ValueError):
                continue
            if 0 < seconds < float("inf"):
                return seconds
    return 0.0


Verdict = Literal["missing", "stays", "passes"]


def _verdict(error: BaseException) -> Verdict | None:
    """What the error says of itself, else what the one says that it was raised from."""
    return next((found for each in _with_causes(error) if (found := _own_verdict(each)) is not None), None)


def _own_verdict(error: BaseException) -> Verdict | None:
    status, code = _status(error), _code(error)
    if isinstance(error, _MISSING) or status in {404, 410} or code in NOT_FOUND:
        return "missing"
    if status in STATUS or code in CODES:
        return "passes"
    if status is not None or _named(error, NOT_CLASSES):
        return "stays"
    if isinstance(error, TimeoutError | ConnectionError | EOFError) or _named(error, CLASSES):
        return "passes"
    if _of_obstore(error) and _NO_ANSWER in str(error):
        return "passes"
    if isinstance(error, socket.gaierror):
        return "passes" if error.errno == socket.EAI_AGAIN else "stays"
    # Any other errno may be a library's translation: what it was raised from knows better.
    return "passes" if isinstance(error, OSError) and error.errno in ERRNOS else None


def _with_causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what it was raised from."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__


def _status(error: BaseException) -> int | None:
    """The HTTP status that an error carries, wherever its library puts it."""
    # One after the other: aiohttp's `code` warns that it is deprecated, beside its `status`.
    for found in _places(error):
        text = str(found) if isinstance(found, int | str) and not isinstance(found, bool) else ""
        if len(text) == 3 and text.isdigit():
            return int(text)
    return None


def _places(error: BaseException) -> Iterator[Any]:
    yield _answer(error).get("HTTPStatusCode")
    for name in ("status", "status_code"):
        yield getattr(error, name, None)
    yield getattr(getattr(error, "response", None), "status_code", None)
    yield getattr(error, "code", None)
    if _of_obstore(error) and (told := _IN_WORDS.search(str(error))) is not None:
        yield told[1]


def _of_obstore(error: BaseException) -> bool:
    return type(error).__module__.partition(".")[0] == "obstore"


def _code(error: BaseException) -> str | None:
    """The error code in words: botocore's `response["Error"]["Code"]`, azure-core's `error_code`."""
    response = getattr(error, "response", None)
    if isinstance(response, dict) and isinstance(response.get("Error"), dict):
        code = response["Error"].get("Code")
    else:
        code = getattr(error, "error_code", None)
    return code if isinstance(code, str) else None


def _answer(error: BaseException) -> dict[str, Any]:
    """Botocore's `response["ResponseMetadata"]`; empty for any other error."""
    response = getattr(error, "response", None)
    found = response.get("ResponseMetadata") if isinstance(response, dict) else None
    return found if isinstance(found, dict) else {}


def _named(error: BaseException, table: dict[str, set[str]]) -> bool:
    return any(
        kind.__name__ in table.get(kind.__module__.partition(".")[0], ()) for kind in type(error).__mro__
    )
