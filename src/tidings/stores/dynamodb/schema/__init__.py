# SPDX-License-Identifier: Apache-2.0
"""Outputs of the declared tables: an account's tables, CloudFormation, Terraform, a docs page."""
