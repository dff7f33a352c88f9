//! Which statements are run: those that only read. The others are answered with the verb that does what was meant.

use datafusion::{
    common::TableReference,
    execution::SessionState,
    sql::{
        parser::{DFParser, Statement},
        sqlparser::{
            ast::Statement as Sql,
            dialect::GenericDialect,
            keywords::Keyword,
            tokenizer::{Token, Tokenizer},
        },
    },
};

use super::{
    session::{CATALOG, DEFAULT_SCHEMA},
    source::Tables,
};
use crate::error::{ApiError, ErrorKind};

/// Operators in one statement, which bounds the depth of its tree.
const MAX_OPERATORS: usize = 2_000;

/// Parses exactly one statement and refuses what does not only read.
pub(super) fn parse(sql: &str) -> Result<Statement, ApiError> {
    check_size(sql)?;
    let mut statements = DFParser::parse_sql(sql).map_err(|error| {
        let text = error.strip_backtrace();
        let text = text
            .trim_start_matches("SQL error: ")
            .trim_start_matches("ParserError(")
            .trim_end_matches(')')
            .trim_matches('"');
        ApiError::new(ErrorKind::BadInput, format!("the statement cannot be read: {text}")).safe("nothing was run")
    })?;
    let statement = match (statements.pop_front(), statements.is_empty()) {
        (Some(statement), true) => statement,
        (None, _) => {
            return Err(ApiError::new(ErrorKind::BadInput, "there is no statement").next("sovm sql \"select 1\""));
        }
        (Some(_), false) => {
            return Err(ApiError::new(ErrorKind::BadInput, "more than one statement")
                .safe("none was run")
                .next("give one statement at a time"));
        }
    };
    check(&statement)?;
    Ok(statement)
}

/// Bounds the depth of the tree before it is built: each operator may be one level, and walking a deep tree fills the stack.
fn check_size(sql: &str) -> Result<(), ApiError> {
    let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize().unwrap_or_default();
    let operators = tokens.iter().filter(|token| match token {
        Token::Word(word) => matches!(
            word.keyword,
            Keyword::AND
                | Keyword::OR
                | Keyword::NOT
                | Keyword::JOIN
                | Keyword::UNION
                | Keyword::EXCEPT
                | Keyword::INTERSECT
        ),
        Token::Plus
        | Token::Minus
        | Token::Mul
        | Token::Div
        | Token::Mod
        | Token::StringConcat
        | Token::DoubleColon => true,
        Token::Eq
        | Token::Neq
        | Token::Lt
        | Token::Gt
        | Token::LtEq
        | Token::GtEq
        | Token::LBracket
        | Token::Period => true,
        _ => false,
    });
    let count = operators.count();
    if count <= MAX_OPERATORS {
        return Ok(());
    }
    Err(ApiError::new(
        ErrorKind::BadInput,
        format!("the statement has {count} operators, at most {MAX_OPERATORS} are run"),
    )
    .safe("nothing was run")
    .next("write many alternatives as one list: column in (…)"))
}

fn check(statement: &Statement) -> Result<(), ApiError> {
    match statement {
        Statement::Explain(explain) => check(&explain.statement),
        Statement::Statement(statement) => check_sql(statement),
        Statement::CreateExternalTable(_) => Err(refuse(
            "CREATE EXTERNAL TABLE",
            "sovm ingest TABLE FILE puts the rows of a file into a table",
        )),
        Statement::CopyTo(_) => Err(refuse(
            "COPY",
            "sovm sql \"select …\" --format csv > FILE writes an answer to a file",
        )),
        Statement::Reset(_) => Err(refuse("RESET", "options are those of the command: sovm sql --help")),
    }
}

fn check_sql(statement: &Sql) -> Result<(), ApiError> {
    let (what, next) = match statement {
        Sql::Query(_)
        | Sql::ExplainTable { .. }
        | Sql::ShowTables { .. }
        | Sql::ShowColumns { .. }
        | Sql::ShowSchemas { .. }
        | Sql::ShowFunctions { .. }
        | Sql::ShowVariable { .. } => return Ok(()),
        Sql::Explain { statement, .. } => return check_sql(statement),
        Sql::Insert(_) => ("INSERT", "sovm ingest TABLE FILE publishes rows"),
        Sql::Update(_) | Sql::Merge(_) => (
            "UPDATE",
            "rows of an append table stay as they are; sovm ingest TABLE FILE adds rows",
        ),
        Sql::Delete(_) | Sql::Truncate(_) => ("DELETE", "rows of an append table stay as they are"),
        Sql::CreateTable(_) => (
            "CREATE TABLE",
            "sovm table create NAME --like FILE makes a table, and sovm ingest NAME FILE by itself too",
        ),
        Sql::CreateView(_) => (
            "CREATE VIEW",
            "write the view's query into the statement: with v as (select …) select …",
        ),
        Sql::AlterTable(_) => ("ALTER TABLE", "sovm table describe NAME shows a table as it is"),
        Sql::Drop { .. } => ("DROP", "sovm table list shows the tables"),
        Sql::Copy { .. } => (
            "COPY",
            "sovm sql \"select …\" --format csv > FILE writes an answer to a file",
        ),
        Sql::Set(_) => ("SET", "options are those of the command: sovm sql --help"),
        Sql::StartTransaction { .. } | Sql::Commit { .. } | Sql::Rollback { .. } => {
            ("a transaction", "every statement sees one snapshot by itself")
        }
        _ => ("this statement", "SELECT, EXPLAIN, SHOW TABLES and DESCRIBE are run"),
    };
    Err(refuse(what, next))
}

fn refuse(what: &str, next: &str) -> ApiError {
    ApiError::new(
        ErrorKind::Refused,
        format!("{what} is not run here: sovm sql only reads"),
    )
    .safe("nothing was changed")
    .next(next)
}

/// Finds out before planning which table is not there, so that the answer can name those that are.
pub(super) fn check_tables(state: &SessionState, statement: &Statement, tables: &dyn Tables) -> Result<(), ApiError> {
    let references = state.resolve_table_references(statement).map_err(|error| {
        ApiError::new(
            ErrorKind::BadInput,
            format!("the statement cannot be read: {}", error.strip_backtrace()),
        )
        .safe("nothing was run")
    })?;
    let mut known = None;
    for reference in references {
        let is_function = matches!(&reference, TableReference::Bare { table } if state.table_functions().contains_key(table.as_ref()));
        let schema = reference.schema().unwrap_or(DEFAULT_SCHEMA);
        let ours = reference.catalog().is_none_or(|catalog| catalog == CATALOG);
        if is_function || (ours && schema == "information_schema") {
            continue;
        }
        let names = match &mut known {
            Some(names) => names,
            None => known.insert(tables.names()?),
        };
        if !ours
            || !names
                .iter()
                .any(|(known, table)| known == schema && table == reference.table())
        {
            return Err(unknown_table(&reference, names));
        }
    }
    Ok(())
}

fn unknown_table(reference: &TableReference, names: &[(String, String)]) -> ApiError {
    let shown: Vec<String> = names
        .iter()
        .map(|(schema, table)| {
            if schema == DEFAULT_SCHEMA {
                quoted(table)
            } else {
                format!("{}.{}", quoted(schema), quoted(table))
            }
        })
        .collect();
    let asked = match reference.schema() {
        Some(schema) => format!("{schema}.{}", reference.table()),
        None => reference.table().to_owned(),
    };
    let close = close_names(&asked, &shown);
    let error = ApiError::new(ErrorKind::NotFound, format!("there is no table {asked} here")).safe("nothing was run");
    match (close.as_slice(), shown.as_slice()) {
        ([], []) => error.next("sovm ingest TABLE FILE makes one"),
        ([], _) => error.next("sovm table list shows the tables"),
        (close, _) => error.next(format!("did you mean {}?", close.join(" or "))),
    }
}

/// The name as it must be written in SQL, where bare names are lower case.
pub(super) fn quoted(name: &str) -> String {
    let bare = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if bare {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

/// Names that differ by a slip: at most three, the closest first.
pub(super) fn close_names(asked: &str, names: &[String]) -> Vec<String> {
    const MOST: usize = 3;
    let plain = |text: &str| text.to_lowercase().replace('"', "");
    let asked = plain(asked);
    let allowed = (asked.chars().count() / 3).clamp(1, 3);
    let mut close: Vec<(usize, &String)> = names
        .iter()
        .map(|name| (distance(&asked, &plain(name)), name))
        .filter(|(distance, _)| *distance <= allowed)
        .collect();
    close.sort();
    close.into_iter().take(MOST).map(|(_, name)| name.clone()).collect()
}

/// Edits between two names.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_that_change_are_refused_with_the_verb() {
        for (sql, verb) in [
            ("insert into t values (1)", "sovm ingest"),
            ("create table t (a int)", "sovm table create"),
            ("create table t as select 1", "sovm table create"),
            (
                "create external table t stored as csv location '/etc/passwd'",
                "sovm ingest",
            ),
            ("copy (select 1) to '/tmp/x.csv'", "--format"),
            ("delete from t", "append table"),
            ("update t set a = 1", "sovm ingest"),
            ("drop table t", "sovm table list"),
            ("set datafusion.execution.batch_size = 1", "sovm sql --help"),
            ("explain insert into t values (1)", "sovm ingest"),
            ("begin transaction", "snapshot"),
        ] {
            let error = parse(sql).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Refused, "{sql}");
            assert!(error.next.as_ref().unwrap().contains(verb), "{sql}: {error:?}");
        }
    }

    #[test]
    fn statements_that_read_are_not() {
        for sql in [
            "select 1",
            "with a as (select 1) select * from a",
            "explain select 1",
            "show tables",
            "describe t",
            "select 1;",
        ] {
            parse(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
        for sql in ["", "select 1; select 2", "selec 1", "select"] {
            assert_eq!(parse(sql).unwrap_err().kind, ErrorKind::BadInput, "{sql}");
        }
    }

    /// A statement that would fill the stack is refused before anything walks it.
    #[test]
    fn endless_statements_are_refused() {
        for sql in [
            format!("select 1 where {}", vec!["a = 1"; 100_000].join(" or ")),
            format!("select {}1", "- ".repeat(100_000)),
            format!("select {}1{}", "(".repeat(100_000), ")".repeat(100_000)),
            format!("select * from t {}", "join t ".repeat(100_000)),
        ] {
            assert_eq!(parse(&sql).unwrap_err().kind, ErrorKind::BadInput);
        }
    }

    #[test]
    fn slips_are_recognised() {
        let names = ["weather", "airports", "\"Weather2\""].map(str::to_owned);
        assert_eq!(close_names("wether", &names), ["weather", "\"Weather2\""]);
        assert_eq!(close_names("WEATHER2", &names), ["\"Weather2\"", "weather"]);
        assert!(close_names("x", &names).is_empty());
    }
}
