"""The package's logger, ``logging.getLogger("tpugraphs")``.

Long work is logged whether `verbose` is set or not: start, evaluations and end of fits, measurements and
notices as INFO; the end of other work, such as predictions, as DEBUG. Nothing is shown until the program asks
for it, for example with ``logging.basicConfig(level="INFO")``.
"""

import logging

#: Logger of the package.
log = logging.getLogger("tpugraphs")
log.addHandler(logging.NullHandler())
