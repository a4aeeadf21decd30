# SPDX-License-Identifier: Apache-2.0
"""The tasks a model is fine-tuned on: files, features, metrics and predictions of each."""
