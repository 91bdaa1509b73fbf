"""Django with django.contrib.postgres: arrays, ranges, JSON, searches, aggregates, constraints; migrations of all."""

import datetime
import os

import django
from django.apps import AppConfig
from django.conf import settings
from django.core.management import call_command
from django.db import models
from django.db.models import Count, F, OuterRef, Q, Subquery
from django.db.models.functions import Lower

settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            **{key: os.environ[f"PG{name}"] for key, name in (("HOST", "HOST"), ("PORT", "PORT"), ("USER", "USER"))},
            "NAME": os.environ["PGDATABASE"],
        }
    },
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "django.contrib.postgres", "__main__.Shop"],
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    MIGRATION_MODULES={"shop": "migrations"},
    USE_TZ=True,
)


class Shop(AppConfig):
    name = "__main__"
    label = "shop"
    path = os.getcwd()


django.setup()

from django.contrib.postgres.aggregates import ArrayAgg, BoolAnd, JSONBAgg, StringAgg, Corr  # noqa: E402, I001
from django.contrib.postgres.constraints import ExclusionConstraint  # noqa: E402
from django.contrib.postgres.fields import ArrayField, DateTimeRangeField, IntegerRangeField, RangeOperators  # noqa: E402
from django.contrib.postgres.indexes import BrinIndex, GinIndex, GistIndex, HashIndex, SpGistIndex  # noqa: E402
from django.contrib.postgres.search import SearchHeadline, SearchQuery, SearchRank, SearchVector, SearchVectorField  # noqa: E402
from django.db import connection, transaction  # noqa: E402
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange, NumericRange  # noqa: E402


class Room(models.Model):
    name = models.CharField(max_length=80)
    tags = ArrayField(models.CharField(max_length=20), default=list)
    grid = ArrayField(ArrayField(models.IntegerField()), null=True)
    floors = IntegerRangeField(null=True)
    data = models.JSONField(default=dict)
    words = SearchVectorField(null=True)
    shout = models.GeneratedField(expression=Lower("name"), output_field=models.TextField(), db_persist=True)
    made = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        app_label = "shop"
        indexes = [
            GinIndex(fields=["tags"]),
            GinIndex(fields=["data"], name="data_ops", opclasses=["jsonb_path_ops"]),
            GinIndex(fields=["words"]),
            GistIndex(fields=["floors"]),
            BrinIndex(fields=["made"]),
            HashIndex(fields=["name"]),
            SpGistIndex(fields=["name"], name="name_spgist"),
            models.Index(Lower("name"), name="room_lower", include=["made"], condition=Q(name__gt="a")),
        ]
        constraints = [
            models.UniqueConstraint(Lower("name"), name="room_once"),
            models.CheckConstraint(condition=Q(tags__len__lt=10), name="few_tags"),
        ]


class Booking(models.Model):
    room = models.ForeignKey(Room, models.CASCADE, related_name="bookings")
    span = DateTimeRangeField()
    price = models.DecimalField(max_digits=10, decimal_places=2, default=0)
    cancelled = models.BooleanField(default=False)

    class Meta:
        app_label = "shop"
        constraints = [
            ExclusionConstraint(
                name="no_overlap",
                expressions=[("span", RangeOperators.OVERLAPS)],
                condition=Q(cancelled=False),
                deferrable=models.Deferrable.DEFERRED,
            )
        ]


def day(number: int, length: int = 1) -> DateTimeTZRange:
    start = datetime.datetime(2026, 1, number, tzinfo=datetime.UTC)
    return DateTimeTZRange(start, start + datetime.timedelta(days=length))


def query() -> None:
    red = Room.objects.create(
        name="Red", tags=["a", "b"], grid=[[1, 2], [3, 4]], floors=NumericRange(1, 3), data={"x": {"y": [1, 2]}}
    )
    blue = Room.objects.create(name="Blue", tags=["b", "c"], floors=NumericRange(3, None), data={"x": None})
    Room.objects.update(words=SearchVector("name", weight="A"))
    red.refresh_from_db()
    assert red.grid == [[1, 2], [3, 4]] and red.shout == "red", red.__dict__
    rooms = Room.objects
    assert rooms.filter(tags__contains=["a"]).get() == red
    assert rooms.filter(tags__overlap=["c", "z"]).get() == blue
    assert rooms.filter(tags__contained_by=["a", "b", "z"]).get() == red
    assert rooms.filter(tags__0="b", tags__len=2, tags__0_1=["b"]).get() == blue
    assert rooms.filter(grid__0__1=2).get() == red
    assert rooms.filter(floors__contains=2).get() == red
    assert rooms.filter(floors__fully_gt=NumericRange(0, 3), floors__upper_inf=True).get() == blue
    assert rooms.filter(floors__adjacent_to=NumericRange(3, 4), floors__startswith=1).get() == red
    assert rooms.filter(data__x__y__1=2).get() == red
    assert rooms.filter(data__has_any_keys=["x", "q"], data__x=None).get() == blue
    assert rooms.filter(data__contains={"x": {"y": [2]}}).get() == red
    assert rooms.filter(words=SearchQuery("red", search_type="websearch")).get() == red
    ranked = rooms.annotate(rank=SearchRank(F("words"), SearchQuery("blue"))).order_by("-rank")
    assert ranked[0] == blue and ranked[0].rank > 0
    shown = rooms.annotate(h=SearchHeadline("name", SearchQuery("red"))).get(pk=red.pk)
    assert shown.h == "<b>Red</b>", shown.h
    assert rooms.filter(name__iregex="^r.d$", name__istartswith="R").get() == red
    for number in range(1, 5):
        Booking.objects.create(room=red if number % 2 else blue, span=day(number), price=number)
    found = Room.objects.annotate(
        prices=ArrayAgg("bookings__price", order_by="-bookings__price", filter=Q(bookings__price__gt=0)),
        texts=StringAgg(
            models.functions.Cast("bookings__price", models.TextField()), delimiter=";", order_by="bookings__id"
        ),
        documents=JSONBAgg("bookings__id", distinct=True),
        none=BoolAnd("bookings__cancelled"),
        corr=Corr(y="bookings__id", x="bookings__price"),
    ).order_by("name")
    assert [float(price) for price in found[1].prices] == [3, 1] and found[1].texts == "1.00;3.00", found[1].__dict__
    newest = Booking.objects.filter(room=OuterRef("pk")).order_by("-id").values("price")[:1]
    assert rooms.annotate(last=Subquery(newest)).get(pk=blue.pk).last == 4
    try:
        with transaction.atomic():
            Booking.objects.create(room=red, span=day(1, 3))
    except django.db.IntegrityError as error:
        assert "no_overlap" in str(error)
    else:
        raise AssertionError("bookings overlap")
    with transaction.atomic():
        clash = Booking.objects.create(room=red, span=day(2))
        clash.cancelled = True
        clash.save()
        rooms.select_for_update(of=("self",), skip_locked=True).filter(pk=red.pk).get()
    assert Room.objects.bulk_create([Room(name=f"r{n}", data={}) for n in range(100)], ignore_conflicts=True)
    Room.objects.bulk_create(
        [Room(id=red.id, name="Rot")], update_conflicts=True, unique_fields=["id"], update_fields=["name"]
    )
    assert rooms.get(pk=red.pk).shout == "rot"
    assert rooms.distinct("shout").order_by("shout").count() == 102
    assert list(
        rooms.filter(name__startswith="r1").order_by("pk").values_list("name", flat=True).iterator(chunk_size=3)
    )
    assert rooms.values("made__date").annotate(n=Count("*"))[0]["n"] == 102
    assert rooms.filter(pk=blue.pk).explain(analyze=True)


def main() -> None:
    os.makedirs("migrations", exist_ok=True)
    open("migrations/__init__.py", "w").close()
    call_command("makemigrations", "shop", verbosity=0)
    call_command("migrate", verbosity=0)
    call_command("makemigrations", "--check", "--dry-run", verbosity=0)
    query()
    with connection.schema_editor() as editor:
        old = Room._meta.get_field("name")
        new = models.TextField()
        new.set_attributes_from_name("name")
        new.model = Room
        try:
            editor.alter_field(Room, old, new)
        except (django.db.NotSupportedError, django.db.utils.DatabaseError) as error:
            assert "generated column" in str(error), error
    with open("inspected.py", "w") as file:
        call_command("inspectdb", stdout=file)
    call_command("flush", "--no-input", verbosity=0)
    call_command("migrate", "shop", "zero", verbosity=0)


if __name__ == "__main__":
    main()
