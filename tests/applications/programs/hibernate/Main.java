// Hibernate: hbm2ddl create, validate, update and drop; a session with associations, enums, JSON, arrays, locks, queries.

import jakarta.persistence.*;
import jakarta.persistence.CascadeType;
import jakarta.persistence.Index;
import jakarta.persistence.Table;
import java.math.BigDecimal;
import java.time.*;
import java.util.*;
import org.hibernate.Session;
import org.hibernate.SessionFactory;
import org.hibernate.Timeouts;
import org.hibernate.annotations.*;
import org.hibernate.cfg.Configuration;
import org.hibernate.type.SqlTypes;

public class Main {
    enum Mood { HAPPY, SAD }

    @Embeddable
    static class Address {
        String street;
        String city;
    }

    @Entity(name = "Person")
    @Table(name = "person", indexes = @Index(columnList = "name"), uniqueConstraints = @UniqueConstraint(columnNames = {"name", "born"}))
    static class Person {
        @Id @GeneratedValue(strategy = GenerationType.SEQUENCE) Long id;
        @Version int version;
        @Column(nullable = false, length = 80) String name;
        LocalDate born;
        OffsetDateTime made = OffsetDateTime.now();
        Duration wait = Duration.ofMinutes(3);
        UUID token = UUID.randomUUID();
        @Column(precision = 12, scale = 2) @Check(constraints = "money >= 0") BigDecimal money = BigDecimal.ZERO;
        @Enumerated(EnumType.STRING) Mood mood = Mood.HAPPY;
        @JdbcTypeCode(SqlTypes.JSON) Map<String, Object> document = new HashMap<>();
        String[] tags = {};
        @Lob byte[] picture;
        @Lob String essay;
        @Embedded Address address = new Address();
        @ElementCollection @CollectionTable(name = "person_phones") List<String> phones = new ArrayList<>();
        @OneToMany(mappedBy = "author", cascade = CascadeType.ALL, orphanRemoval = true) @OrderBy("id") List<Post> posts = new ArrayList<>();
        @ManyToMany(cascade = CascadeType.PERSIST) Set<Tag> likes = new HashSet<>();
        @Generated @ColumnDefault("7") @Column(insertable = false, updatable = false) Integer seven;
        @Formula("upper(name)") String shout;
    }

    @Entity(name = "Post")
    static class Post {
        @Id @GeneratedValue(strategy = GenerationType.IDENTITY) Long id;
        String title;
        int views;
        @ManyToOne(optional = false, fetch = FetchType.LAZY) @OnDelete(action = OnDeleteAction.CASCADE) Person author;
    }

    @Entity(name = "Tag")
    static class Tag {
        @Id String label;
    }

    @Entity(name = "Animal") @Inheritance(strategy = InheritanceType.JOINED)
    static class Animal {
        @Id @GeneratedValue(strategy = GenerationType.UUID) UUID id;
        String name;
    }

    @Entity(name = "Dog")
    static class Dog extends Animal {
        int barks;
    }

    @Entity(name = "Task")
    static class Task {
        @Id @GeneratedValue Integer id;
        @JdbcTypeCode(SqlTypes.NAMED_ENUM) Mood mood = Mood.SAD;
        @JdbcTypeCode(SqlTypes.INET) java.net.InetAddress host;
    }

    // The table of Post with one more column and one more index: what an update adds.
    @Entity(name = "PostAgain") @Table(name = "Post", indexes = @Index(name = "post_title", columnList = "title"))
    static class PostAgain {
        @Id @GeneratedValue(strategy = GenerationType.IDENTITY) Long id;
        String title;
        int views;
        @ManyToOne(optional = false) Person author;
        @ColumnDefault("'e'") String extra;
    }

    static SessionFactory open(String schema, Class<?>... entities) {
        Configuration configuration = new Configuration();
        for (Class<?> entity : entities) configuration.addAnnotatedClass(entity);
        String url = "jdbc:postgresql://%s:%s/%s".formatted(System.getenv("PGHOST"), System.getenv("PGPORT"), System.getenv("PGDATABASE"));
        configuration.setProperty("hibernate.connection.url", url);
        configuration.setProperty("hibernate.connection.username", System.getenv("PGUSER"));
        configuration.setProperty("hibernate.hbm2ddl.auto", schema);
        configuration.setProperty("hibernate.hbm2ddl.halt_on_error", "true");
        configuration.setProperty("hibernate.jdbc.batch_size", "20");
        configuration.setProperty("hibernate.query.hql.json_functions_enabled", "true");
        if (System.getenv("VERBOSE") != null) configuration.setProperty("hibernate.show_sql", "true");
        return configuration.buildSessionFactory();
    }

    static void check(boolean holds, String what) {
        if (!holds) throw new AssertionError(what);
    }

    static void use(SessionFactory factory) {
        factory.inTransaction(session -> {
            Person ada = new Person();
            ada.name = "ada";
            ada.born = LocalDate.of(1815, 12, 10);
            ada.money = new BigDecimal("12.34");
            ada.document.put("a", List.of(1, 2));
            ada.tags = new String[] {"x", "y"};
            ada.picture = new byte[] {0, 1, -1};
            ada.essay = "text".repeat(1000);
            ada.address.city = "London";
            ada.phones.addAll(List.of("1", "2"));
            for (int n = 0; n < 30; n++) {
                Post post = new Post();
                post.title = "post " + n;
                post.author = ada;
                ada.posts.add(post);
            }
            Tag tag = new Tag();
            tag.label = "sql";
            ada.likes.add(tag);
            session.persist(ada);
            for (String name : List.of("bob", "eve")) {
                Person other = new Person();
                other.name = name;
                other.likes.add(tag);
                session.persist(other);
            }
            Dog dog = new Dog();
            dog.name = "rex";
            dog.barks = 3;
            session.persist(dog);
        });
        factory.inTransaction(session -> {
            Person ada = session.createQuery("from Person p left join fetch p.posts where p.name = :n", Person.class).setParameter("n", "ada").getSingleResult();
            check(ada.posts.size() == 30 && ada.seven == 7 && ada.shout.equals("ADA"), "a person");
            check(ada.document.get("a").equals(List.of(1, 2)) && ada.tags.length == 2 && ada.picture[2] == -1 && ada.essay.length() == 4000, "values");
            ada.posts.remove(0);
            ada.phones.remove("1");
            ada.mood = Mood.SAD;
        });
        factory.inSession(session -> {
            check(session.createQuery("select count(*) from Post", Long.class).getSingleResult() == 29, "orphans");
            List<Object[]> rows = session.createQuery("select p.name, count(o), listagg(o.title, ',') within group (order by o.title) from Person p left join p.posts o "
                + "group by p.name having count(o) >= 0 order by count(o) desc, p.name limit 2", Object[].class).getResultList();
            check(rows.size() == 2 && (Long) rows.get(0)[1] == 29, "groups");
            check(session.createQuery("with t as (select p.name as name from Person p where p.mood = SAD) select t.name from t t", String.class).getResultList().equals(List.of("ada")), "with");
            check(session.createQuery("select extract(year from p.born) from Person p where array_contains(p.tags, 'x')", Integer.class).getSingleResult() == 1815, "array");
            check(session.createQuery("select json_value(p.document, '$.a[1]' returning integer) from Person p where p.name = 'ada'", Integer.class).getSingleResult() == 2, "json");
            check(session.createQuery("from Animal a where treat(a as Dog).barks > 2", Animal.class).getSingleResult() instanceof Dog, "inheritance");
            check(session.createQuery("select p.name, row_number() over (order by p.name) from Person p", Object[].class).getResultList().size() == 3, "windows");
        });
        lock(factory);
        factory.inTransaction(session -> {
            check(session.createMutationQuery("update Person p set p.money = p.money + 1 where p.name <> 'ada'").executeUpdate() == 2, "update");
            check(session.createMutationQuery("insert into Tag (label) values ('js'), ('sql') on conflict (label) do nothing").executeUpdate() == 1, "insert");
            check(session.createMutationQuery("delete from Dog d where d.barks > 100").executeUpdate() == 0, "delete");
        });
        boolean stale = false;
        try (Session one = factory.openSession(); Session two = factory.openSession()) {
            Person first = one.createQuery("from Person where name = 'bob'", Person.class).getSingleResult();
            Person second = two.createQuery("from Person where name = 'bob'", Person.class).getSingleResult();
            var begun = one.beginTransaction();
            first.money = BigDecimal.TEN;
            begun.commit();
            begun = two.beginTransaction();
            second.money = new BigDecimal("77");
            try {
                begun.commit();
            } catch (OptimisticLockException | RollbackException error) {
                stale = true;
            }
        }
        check(stale, "an optimistic lock");
    }

    static void lock(SessionFactory factory) {
        factory.inTransaction(session -> {
            session.createQuery("from Person", Person.class).setLockMode(LockModeType.PESSIMISTIC_WRITE).setTimeout(Timeouts.SKIP_LOCKED).getResultList();
            session.createQuery("from Person", Person.class).setLockMode(LockModeType.PESSIMISTIC_READ).setTimeout(Timeouts.NO_WAIT).getResultList();
            Person bob = session.createQuery("from Person where name = 'bob'", Person.class).getSingleResult();
            session.lock(bob, LockModeType.PESSIMISTIC_FORCE_INCREMENT);
        });
    }

    public static void main(String[] arguments) {
        Class<?>[] entities = {Person.class, Post.class, Tag.class, Animal.class, Dog.class};
        open("create", entities).close();
        open("validate", entities).close();
        open("update", entities).close();
        open("update", Person.class, Tag.class, Post.class, PostAgain.class, Animal.class, Dog.class).close();
        try (SessionFactory factory = open("validate", entities)) {
            use(factory);
        }
        try (SessionFactory factory = open("create-drop", entities)) {
            factory.getSchemaManager().truncateMappedObjects();
        }
        if (arguments.length > 0) return;
        try (SessionFactory factory = open("create-drop", Task.class)) {
            factory.inTransaction(session -> session.persist(new Task()));
            factory.inSession(session -> check(session.createQuery("from Task t where t.mood = SAD", Task.class).getResultList().size() == 1, "a named enum"));
        }
    }
}
