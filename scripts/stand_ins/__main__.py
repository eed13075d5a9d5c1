# SPDX-License-Identifier: Apache-2.0
"""`python -m scripts.stand_ins`"""

from scripts.stand_ins.images import make

make()
