"""What an application does with its database; prints a line for each thing that it sees (tests/drivers/test_django.py).

Run with DJANGO_SETTINGS_MODULE=tests.drivers.django_project.settings.
"""

from __future__ import annotations

import datetime as dt
import io
import re
from decimal import Decimal

import django

django.setup()

from django.core.management import call_command  # noqa: E402 - the applications must be there first
from django.db import IntegrityError, connection, migrations, models, transaction  # noqa: E402
from django.db.migrations.executor import MigrationExecutor  # noqa: E402
from django.db.models import Avg, Count, F, Prefetch, Q, Sum, Window  # noqa: E402
from django.db.models.functions import Lower, Rank, TruncYear  # noqa: E402

from tests.drivers.django_project.shop.models import Label, Order, Person  # noqa: E402


def show(title: str, value: object) -> None:
    print(f"{title}: {value}")


def command(*arguments: str) -> str:
    """The output of a management command."""
    out = io.StringIO()
    call_command(*arguments, stdout=out, no_color=True)
    return out.getvalue()


def migrate() -> None:
    """Django's own migrations, and the shop's tables, which have none: they are made and changed by the editor."""
    applied = [line.strip() for line in command("migrate", "--run-syncdb").splitlines() if "OK" in line]
    show("migrated", applied)
    show("tables", sorted(connection.introspection.table_names()))
    show("again", command("migrate").strip().splitlines()[-1].strip())
    show("pending", MigrationExecutor(connection).migration_plan([]))


def fill() -> None:
    people = []
    for number in range(20):
        more = {"level": number, "deep": {"odd": bool(number % 2)}}
        born, balance = dt.date(1980 + number, 1, 2), Decimal(number) / 4
        people.append(Person(name=f"p{number}", born=born, balance=balance, tags=[f"t{number % 3}"], more=more))
    Person.objects.bulk_create(people)
    labels = [Label.objects.create(word=word) for word in ("new", "late", "gift")]
    for number, person in enumerate(Person.objects.order_by("id")):
        given = {"took": dt.timedelta(hours=number), "weight": number / 3, "picture": bytes([number])}
        order = Order.objects.create(person=person, note=f"note {number}", address=f"10.0.0.{number}", **given)
        order.labels.set(labels[: number % 4])
    show("one", Person.objects.get(name="p3").more)
    made, created = Label.objects.update_or_create(word="new", defaults={"word": "newer"})
    show("update_or_create", (made.word, created))
    show("bulk", Person.objects.bulk_create([Person(name="p1"), Person(name="x")], ignore_conflicts=True)[1].name)
    changed = Person.objects.filter(born__lt="1985-01-01").update(balance=F("balance") + 1)
    show("updated", changed)


def ask() -> None:
    people = Person.objects
    show(
        "filter",
        list(people.filter(Q(name__istartswith="P1") & ~Q(born=None)).order_by("-name").values_list("name", flat=True)),
    )
    show(
        "json",
        list(people.filter(more__deep__odd=True, more__level__gt=15).order_by("id").values_list("name", "more__level")),
    )
    show("array", people.filter(tags__contains=["t1"]).count())
    show("overlap", people.filter(tags__overlap=["t0", "t2"]).count())
    show("aggregate", people.aggregate(total=Sum("balance"), mean=Avg("balance"), n=Count("id")))
    counted = people.annotate(n=Count("orders__labels")).filter(n__gt=1).order_by("name").values_list("name", "n")
    show("annotate", list(counted[:5]))
    years = (
        people.exclude(born=None)
        .annotate(year=TruncYear("born"))
        .values("year")
        .annotate(n=Count("id"))
        .order_by("year")
    )
    show("years", list(years[:3]))
    ranked = (
        people.annotate(rank=Window(Rank(), order_by=F("balance").desc()))
        .order_by("rank", "name")
        .values_list("name", "rank")
    )
    show("window", list(ranked[:4]))
    show("lower", list(people.annotate(low=Lower("name")).order_by("low").values_list("low", flat=True)[:3]))
    orders = Order.objects.select_related("person").prefetch_related(Prefetch("labels", Label.objects.order_by("word")))
    show(
        "related",
        [(order.person.name, [label.word for label in order.labels.all()]) for order in orders.order_by("weight")[:5]],
    )
    show("subquery", people.filter(id__in=Order.objects.filter(labels__word="gift").values("person")).count())
    show(
        "union",
        people.filter(name="p1").values("name").union(people.filter(name="p2").values("name")).order_by("name").count(),
    )
    show("iterator", sum(1 for _ in people.iterator(chunk_size=7)))
    order = Order.objects.get(person__name="p7")
    show("values", (order.took, order.weight, bytes(order.picture), order.address, order.placed.tzinfo))
    show("distinct", list(people.order_by("tags", "name").distinct("tags").values_list("tags", "name")))
    show("exists", people.filter(name="nobody").exists())
    show("explain", bool(people.filter(id=1).explain()))


def fail() -> None:
    for title, work in (
        ("unique", lambda: Person.objects.create(name="p1")),
        ("check", lambda: Person.objects.create(name="poor", balance=-1)),
        ("null", lambda: Order.objects.create(person_id=None)),
    ):
        try:
            with transaction.atomic():
                work()
        except IntegrityError as error:
            cause = error.__cause__
            show(title, (type(cause).__name__, getattr(cause, "sqlstate", None)))
    with transaction.atomic():
        Person.objects.filter(name="p1").delete()
        point = transaction.savepoint()
        Person.objects.all().delete()
        transaction.savepoint_rollback(point)
        show("left", Person.objects.count())
        show("locked", Person.objects.select_for_update().get(name="p2").name)
        transaction.set_rollback(True)
    show("after", Person.objects.count())


def change() -> None:
    """Operations that migrations are made of, on tables with rows."""
    operations = [
        migrations.AddField("person", "phone", models.CharField(max_length=20, default="none")),
        migrations.AlterField("person", "name", models.CharField(max_length=80, unique=True)),
        migrations.RenameField("person", "active", "is_active"),
        migrations.AlterField("person", "email", models.CharField(max_length=100, default="", db_index=True)),
        migrations.AddIndex("person", models.Index(Lower("name"), name="by_low_name")),
        migrations.AddConstraint("person", models.UniqueConstraint(fields=["phone", "born"], name="one_phone")),
        migrations.RemoveConstraint("person", "one_phone"),
        migrations.RemoveIndex("person", "by_birthday"),
        migrations.AlterUniqueTogether("order", {("person", "note")}),
        migrations.CreateModel("Note", [("id", models.AutoField(primary_key=True)), ("text", models.TextField())]),
        migrations.RenameModel("Note", "Remark"),
        migrations.AlterModelTable("Remark", "remarks"),
        migrations.RemoveField("person", "born"),
    ]
    state = MigrationExecutor(connection).loader.project_state()
    state.real_apps.discard("shop")
    from django.db.migrations.state import ModelState

    for model in (Person, Label, Order):
        state.add_model(ModelState.from_model(model))
    for operation in operations:
        after = state.clone()
        operation.state_forwards("shop", after)
        with connection.schema_editor(atomic=True) as editor:
            operation.database_forwards("shop", editor, state, after)
        state = after
    with connection.cursor() as cursor:
        description = connection.introspection.get_table_description(cursor, "shop_person")
        show("columns", [(column.name, column.null_ok, column.type_code) for column in description])
        found = connection.introspection.get_constraints(cursor, "shop_person")
        kept = ("columns", "primary_key", "unique", "check", "index", "orders", "type")
        show(
            "constraints",
            sorted(
                (re.sub(r"_[0-9a-f]{8}", "", name), {key: one[key] for key in kept if key in one})
                for name, one in found.items()
            ),
        )
        show("relations", connection.introspection.get_relations(cursor, "shop_order"))
        show("sequences", connection.introspection.get_sequences(cursor, "shop_person"))
    show("renamed", sorted(connection.introspection.table_names())[-3:])


def main() -> None:
    migrate()
    fill()
    ask()
    fail()
    change()
    print(command("inspectdb"))
    command("flush", "--no-input")
    show("flushed", Person.objects.only("id").count())


if __name__ == "__main__":
    main()
