# SPDX-License-Identifier: Apache-2.0
"""What the package offers in Python: loading, predicting, fitting."""
