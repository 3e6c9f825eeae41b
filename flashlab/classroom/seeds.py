"""Hidden seeds: an HMAC of the course's secret for each student, attempt and case. Floor: front.

The key of a lab and attempt is derived from the secret; its SHA-256 is the commitment, printed
before and with the marks. After the deadline the key may be shown: everybody can then draw the
same cases again, and nobody learns the key of another lab.
"""

import hashlib
import hmac
from collections.abc import Iterable

SEED_BITS = 32  # what torch's generator on the CPU uses of a seed


def lab_key(secret: bytes, lab: str, attempt: int = 1) -> bytes:
    """The key that one attempt of one lab is drawn with."""
    return hmac.digest(secret, _joined("lab", lab, str(attempt)), "sha256")


def commitment(key: bytes) -> str:
    """What is published before the marks, in hex; it says nothing of the key."""
    return hashlib.sha256(b"flashlab commitment\0" + key).hexdigest()


def case_seed(key: bytes, student: str, slug: str, case: str) -> int:
    """The seed of one case of one student."""
    digest = hmac.digest(key, _joined(student, slug, case), "sha256")
    return int.from_bytes(digest[: SEED_BITS // 8], "big")


def case_seeds(key: bytes, student: str, slug: str, cases: Iterable[str]) -> dict[str, int]:
    """Every seed of one student and exercise, by the name of the case."""
    return {name: case_seed(key, student, slug, name) for name in cases}


def _joined(*parts: str) -> bytes:
    """Parts with their lengths, so that no two lists of them give the same bytes."""
    return b"".join(
        len(data).to_bytes(4, "big") + data
        for data in (part.encode("utf-8", "surrogateescape") for part in parts)
    )
