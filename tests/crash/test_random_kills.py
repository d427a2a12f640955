"""API and worker processes are killed at random moments while customers buy; nothing is lost and nothing is twice."""

import os
import random
import time

from crash.estate import Estate
from crash.load import customers

# GIFTRAIL_CRASH_SEED repeats a run; GIFTRAIL_CRASH_KILLS makes it longer.
KILLS = int(os.environ.get("GIFTRAIL_CRASH_KILLS", "8"))


def test_random_kills_lose_nothing_and_do_nothing_twice(crashing: Estate) -> None:
    seed = int(os.environ.get("GIFTRAIL_CRASH_SEED") or random.SystemRandom().getrandbits(32))
    print(f"GIFTRAIL_CRASH_SEED={seed}")
    choice = random.Random(seed)
    processes = {"serve": crashing.start("serve"), "work": crashing.start("work")}
    with customers(crashing, seed=seed):
        for _ in range(KILLS):
            crashing.shop.loses_answers = choice.randint(0, 1)
            time.sleep(choice.uniform(0.05, 0.7))
            role = choice.choice(["serve", "work"])
            crashing.kill(processes[role])
            time.sleep(choice.uniform(0, 0.2))
            processes[role] = crashing.start(role)
