# SPDX-License-Identifier: Apache-2.0
"""Weights from and to files of the original, of ours and of other libraries."""
