"""L4: how tapes are found, shrunk, confirmed and kept.

Whatever makes runs passes here, so this is where the world learns what stands above it.
"""

import foretold.services  # worlds have services from here on
import foretold.spec.adopted  # machines of Hypothesis can be run from here on
import foretold.spec.model  # noqa: F401  # and machines may have models
