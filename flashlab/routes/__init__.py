"""``flashlab.attention``: one attention for a model, by the kernels of this course. Floor: core.

``table`` says which kernels take which call, ``contract`` what a call has to be; ``attend`` runs
it.
"""

from flashlab.routes.attend import attention, call_of, course_attention, decode_splits
from flashlab.routes.table import ROUTES, Call, Plan, Route, plan

__all__ = [
    "ROUTES",
    "Call",
    "Plan",
    "Route",
    "attention",
    "call_of",
    "course_attention",
    "decode_splits",
    "plan",
]
