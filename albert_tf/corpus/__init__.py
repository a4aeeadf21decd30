# SPDX-License-Identifier: Apache-2.0
"""Making pre-training records from text."""
