"""Planted defects: the daemon's own code with one rule missing, to show that the judge finds it.

The rules are those of GUARANTEES.md section 3 and of the protocol model's findings. A plant may
bring its own workload and mix of faults; its seeds are 0, 1, 2, … like everybody's.
"""

from tests.simulation.plants.cost import COST
from tests.simulation.plants.ledger import LEDGER
from tests.simulation.plants.owners import OWNERS
from tests.simulation.plants.plant import Plant
from tests.simulation.plants.roles import ROLES
from tests.simulation.plants.spending import SPENDING

PLANTS: dict[str, Plant] = {
    plant.name: plant for plant in (*LEDGER, *OWNERS, *ROLES, *SPENDING, *COST)
}
"""By name."""
