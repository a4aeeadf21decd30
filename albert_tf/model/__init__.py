# SPDX-License-Identifier: Apache-2.0
"""The ALBERT encoder, its heads and the optimizers; independent of text and files."""
