# SPDX-License-Identifier: Apache-2.0
"""README.md and docs/ against the scripts: what is read from the pages is run or compared."""
