"""The tables of a shop, with the fields, constraints and indexes that applications use."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db import models


class Person(models.Model):
    """Who buys."""

    name = models.CharField(max_length=40, unique=True)
    email = models.EmailField(null=True, db_index=True)
    born = models.DateField(null=True)
    balance = models.DecimalField(max_digits=12, decimal_places=2, default=0)
    active = models.BooleanField(default=True)
    tags = ArrayField(models.TextField(), default=list)
    more: models.JSONField[Any, Any] = models.JSONField(default=dict)

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(balance__gte=0), name="not_negative")]
        indexes = [models.Index(fields=["born", "-balance"], name="by_birthday")]


class Label(models.Model):
    """A word on an order."""

    word = models.SlugField(unique=True)


class Order(models.Model):
    """What was bought."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    person = models.ForeignKey(Person, on_delete=models.CASCADE, related_name="orders")
    labels: models.ManyToManyField[Label, Any] = models.ManyToManyField(Label)
    placed = models.DateTimeField(auto_now_add=True)
    took = models.DurationField(null=True)
    weight = models.FloatField(null=True)
    picture = models.BinaryField(null=True)
    count = models.PositiveSmallIntegerField(default=1)
    note = models.TextField(blank=True)
    address = models.GenericIPAddressField(null=True)
