"""``python -m tests.simulation --seeds N [--from SEED] -o json``."""

import argparse
import json
import sys

from tests.simulation.campaign import run
from tests.simulation.plants import PLANTS
from tests.simulation.plants.plant import USUAL


def main() -> int:
    """Play, print, and end with 1 where something was broken or not found."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1_000, help="how many schedules")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first seed")
    parser.add_argument("--no-plants", action="store_true", help="the clean code only")
    parser.add_argument("--plant", action="append", choices=sorted(PLANTS), help="only this one")
    parser.add_argument("--mix", choices=sorted(PLANTS), help="a plant's workload, without it")
    parser.add_argument("-o", dest="form", choices=("json", "text"), default="text")
    given = parser.parse_args()
    if given.seeds == 1:
        mix = PLANTS[given.mix].mix if given.mix else USUAL
        sys.stderr.write(f"{mix.options(given.first)}\n")
    plants = [] if given.no_plants else given.plant or list(PLANTS)
    campaign = run(given.seeds, given.first, plants, given.mix or "")
    report = campaign.report()
    sys.stdout.write(json.dumps(report, indent=None if given.form == "json" else 2) + "\n")
    is_all_found = report["planted_found"] == report["planted_total"]
    return 0 if is_all_found and not report["violations"] and not campaign.mismatches else 1


if __name__ == "__main__":
    sys.exit(main())
