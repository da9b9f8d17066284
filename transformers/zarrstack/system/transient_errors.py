"""Classification of transient errors, from the store's verdict or from the error itself.

Errors are recognised by their data (an HTTP status, an error code, an errno) and by class name, without
importing client libraries. Sources:

- HTTP status: RFC 9110, section 15 (https://www.rfc-editor.org/rfc/rfc9110#section-15), and RFC 6585, section
  4, for 429.
- Error codes of S3 and of AWS services: boto3's guide, "Standard retry mode"
  (https://boto3.amazonaws.com/v1/documentation/api/latest/guide/retries.html), and the S3 API reference,
  "Error responses".
- s3fs translates botocore's errors to OSErrors and keeps the original as their cause: 500 becomes EREMOTEIO,
  503 EBUSY (s3fs/errors.py). gcsfs raises HttpError with `code`; adlfs passes on azure-core's
  HttpResponseError, with `status_code`; aiohttp's ClientResponseError has `status`.
- obstore 0.12 has both only in the message: "Server returned non-2xx status code: 503 Service Unavailable",
  and "HTTP error: error sending request" if there was no response.
"""

from __future__ import annotations

import errno
import re
import socket
from collections.abc import Iterator
from typing import Any, Final, Literal

STATUS: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses that may change on a later attempt."""

CODES: Final = frozenset({
    "BandwidthLimitExceeded", "InternalError", "LimitExceededException", "OperationAborted",
    "PriorRequestNotComplete", "ProvisionedThroughputExceededException", "RequestLimitExceeded",
    "RequestThrottled", "RequestThrottledException", "RequestTimeout", "RequestTimeoutException",
    "ServerBusy", "ServiceUnavailable", "SlowDown", "ThrottledException", "Throttling",
    "ThrottlingException", "TooManyRequests", "TooManyRequestsException", "TransactionInProgressException",
})  # fmt: skip
"""Error codes with the same meaning."""

_ERRNO_NAMES: Final = (
    "EAGAIN", "EBUSY", "ECONNABORTED", "ECONNREFUSED", "ECONNRESET", "EHOSTDOWN", "EHOSTUNREACH", "EINTR",
    "EMFILE", "ENETDOWN", "ENETRESET", "ENETUNREACH", "ENFILE", "ENOBUFS", "EPIPE", "EREMOTEIO",
    "ESHUTDOWN", "ESTALE", "ETIMEDOUT",
)  # fmt: skip
ERRNOS: Final = frozenset(getattr(errno, name) for name in _ERRNO_NAMES if hasattr(errno, name))
"""OS errors caused by the network or by a temporary shortage."""

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
"""Classes of broken and timed-out connections, by package."""
NOT_CLASSES: Final = {
    "aiohttp": {"ClientConnectorCertificateError", "ClientConnectorSSLError", "ServerFingerprintMismatch"},
    "botocore": {"ProxyConnectionError", "SSLError"},
    "requests": {"SSLError"},
    "urllib3": {"SSLError"},
}
"""Their permanent subclasses: an invalid certificate does not become valid by waiting."""

_IN_WORDS: Final = re.compile(r"status code: ([0-9]{3})\b")
_NO_ANSWER: Final = "HTTP error:"
"""Patterns of obstore's messages."""

NOT_FOUND: Final = frozenset({"NoSuchKey", "NoSuchBucket", "NotFound", "BlobNotFound", "ContainerNotFound"})
_MISSING: Final = (FileNotFoundError, IsADirectoryError, NotADirectoryError)


def is_not_found(error: BaseException) -> bool:
    """Whether the error means that something does not exist; such errors are never retried."""
    return any(isinstance(each, KeyError) or _verdict(each) == "missing" for each in _parts(error))


def may_pass(error: BaseException) -> bool:
    """Whether the operation may succeed if repeated later."""
    return all(_verdict(each) == "passes" for each in _parts(error))


def answers(error: BaseException) -> Iterator[tuple[int | None, str | None]]:
    """The HTTP status and the code of each error in a group, and of each cause; None where it has none."""
    for part in _parts(error):
        for each in _with_causes(part):
            yield _status(each), _code(each)


def wanted_wait(error: BaseException) -> float:
    """Seconds requested by the server with `Retry-After`; 0 if absent or given as a date.

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
    """The verdict of the error, or of the first of its causes that has one."""
    return next(
        (verdict for each in _with_causes(error) if (verdict := _own_verdict(each)) is not None), None
    )


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
    # Any other errno may be a library's translation: the cause is more reliable.
    return "passes" if isinstance(error, OSError) and error.errno in ERRNOS else None


def _parts(error: BaseException) -> Iterator[BaseException]:
    """The errors of a group and of the groups in it; of any other error, itself."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _parts(each)
    else:
        yield error


def _with_causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__


def _status(error: BaseException) -> int | None:
    """The HTTP status that an error carries, wherever its library stores it."""
    # In this order: aiohttp's `code` raises a deprecation warning, its `status` does not.
    for value in _places(error):
        text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
        if len(text) == 3 and text.isdigit():
            return int(text)
    return None


def _places(error: BaseException) -> Iterator[Any]:
    yield _answer(error).get("HTTPStatusCode")
    for name in ("status", "status_code"):
        yield getattr(error, name, None)
    yield getattr(getattr(error, "response", None), "status_code", None)
    yield getattr(error, "code", None)
    if _of_obstore(error) and (match := _IN_WORDS.search(str(error))) is not None:
        yield match[1]


def _of_obstore(error: BaseException) -> bool:
    return type(error).__module__.partition(".")[0] == "obstore"


def _code(error: BaseException) -> str | None:
    """The textual error code: botocore's `response["Error"]["Code"]`, azure-core's `error_code`."""
    response = getattr(error, "response", None)
    if isinstance(response, dict) and isinstance(response.get("Error"), dict):
        code = response["Error"].get("Code")
    else:
        code = getattr(error, "error_code", None)
    return code if isinstance(code, str) else None


def _answer(error: BaseException) -> dict[str, Any]:
    """Botocore's `response["ResponseMetadata"]`; empty for any other error."""
    response = getattr(error, "response", None)
    metadata = response.get("ResponseMetadata") if isinstance(response, dict) else None
    return metadata if isinstance(metadata, dict) else {}


def _named(error: BaseException, table: dict[str, set[str]]) -> bool:
    return any(
        kind.__name__ in table.get(kind.__module__.partition(".")[0], ()) for kind in type(error).__mro__
    )
