"""Several processes on this machine as the ranks of torch.distributed. Floor: core.

Starts them by fork, watches over them, ends them; cuts a sequence into their shards. It knows no
answer: which rank computes what is the exercise's business.
"""

from flashlab.ring.errors import RankError
from flashlab.ring.launch import Member, run
from flashlab.ring.requests import Requests
from flashlab.ring.shards import gather, shard
from flashlab.ring.shared import shared

__all__ = ["Member", "RankError", "Requests", "gather", "run", "shard", "shared"]
