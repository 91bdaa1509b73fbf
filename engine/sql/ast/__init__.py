"""The raw parse tree: what was written, nothing resolved.

Nodes follow PostgreSQL's parsenodes.h, so that its documentation and anybody's knowledge of it apply here. `location`
is the character offset (from 0) of the token that an error about the node should point at; -1 where there is none.
engine/sql/parser/ makes these trees; nothing else in Shoal knows sqlglot.
Identifiers are folded to lower case unless they were quoted, and cut to 63 bytes.

Everybody else writes `from engine.sql import ast` and `ast.SelectStmt`; the lists below say which file a node is in.
"""

# mypy: implicit-reexport
# ruff: noqa: F401

from engine.sql.ast.base import (
    Node,
    Statement,
)
from engine.sql.ast.code import (
    ExtensionStmt,
)
from engine.sql.ast.definitions import (
    AlterCompositeStmt,
    AlterDatabaseStmt,
    AlterDomainStmt,
    AlterEnumStmt,
    AlterObjectSchemaStmt,
    AlterOwnerStmt,
    AlterTableCmd,
    AlterTableStmt,
    AlterTypeStmt,
    ColumnDef,
    CommentStmt,
    CompositeTypeStmt,
    ConstraintDef,
    CreateDatabaseStmt,
    CreateDomainStmt,
    CreateEnumStmt,
    CreateSchemaStmt,
    CreateStmt,
    CreateTableAsStmt,
    DefaultPrivilegesStmt,
    DropDatabaseStmt,
    DropStmt,
    GrantStmt,
    IndexElement,
    IndexStmt,
    LikeClause,
    OwnedStmt,
    RefreshMatViewStmt,
    RenameStmt,
    RoleStmt,
    SequenceStmt,
    TablespaceStmt,
    TruncateStmt,
    ViewStmt,
)
from engine.sql.ast.expressions import (
    ArrayExpr,
    BooleanTest,
    BoolExpr,
    CaseExpr,
    CaseWhen,
    CoalesceExpr,
    CollateClause,
    ColumnRef,
    Expression,
    FuncCall,
    GroupingFunc,
    Indirection,
    ListExpr,
    Literal,
    MinMaxExpr,
    NullTest,
    ParamRef,
    RowExpr,
    SetToDefault,
    SortBy,
    SqlValueFunction,
    SubLink,
    Subscript,
    TypeCast,
    TypeName,
    WindowDef,
)
from engine.sql.ast.queries import (
    Alias,
    ColumnDefinitionItem,
    CommonTableExpr,
    DeleteStmt,
    GroupingSet,
    InferClause,
    InsertStmt,
    JoinExpr,
    LockingClause,
    MergeStmt,
    MergeWhen,
    MultiAssign,
    OnConflict,
    RangeFunction,
    RangeSubselect,
    RangeTableSample,
    RangeVar,
    ResTarget,
    SelectStmt,
    UpdateStmt,
    WithClause,
)
from engine.sql.ast.sessions import (
    CheckPointStmt,
    ClosePortalStmt,
    CopyStmt,
    DeallocateStmt,
    DeclareCursorStmt,
    DiscardStmt,
    DoStmt,
    ExecuteStmt,
    ExplainStmt,
    FetchStmt,
    LockStmt,
    NotifyStmt,
    PrepareStmt,
    ReindexStmt,
    SetConstraintsStmt,
    SetStmt,
    ShowStmt,
    TransactionStmt,
    VacuumStmt,
)
