# SPDX-License-Identifier: Apache-2.0
"""Exports: TF Hub modules, served SavedModels, TFLite files, text as input of a graph."""
