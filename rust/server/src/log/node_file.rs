//! The file of a data directory with the messages of a node of a cluster: which node, which cluster. The groups of that
//! cluster are in its engine, so a server that is alone does not use such a directory.

use std::fmt::Write as _;

use rota_engine::HistoryId;

use crate::base::text_file::{TextFile, check_format, entries, summed};

/// The file's name.
pub const NODE_FILE: &str = "rota.node";

/// The first word of the file, before the number of its format.
const HEAD: &str = "rota.node ";
const FORMAT: u32 = 1;

/// A cluster, and what its engine has not lost since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    /// The cluster id that clients see.
    pub cluster_id: String,
    /// The engine's history; `None`: the directory was written before it began, by a server that was alone.
    pub history: Option<HistoryId>,
}

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFile {
    /// The node.
    pub node_id: i32,
    /// Its cluster; `None`: the node has not joined any yet.
    pub home: Option<Home>,
}

impl NodeFile {
    /// Reads the file; `None`: there is none. Errors: why it cannot be read.
    pub fn read(file: &TextFile) -> Result<Option<NodeFile>, String> {
        let said =
            |reason: String| format!("has a `{NODE_FILE}` that cannot be read: {reason}; restore it from a copy");
        let Some(text) = file.read().map_err(|error| said(error.to_string()))? else { return Ok(None) };
        let parsed = check_format(&text, HEAD, FORMAT).and_then(|()| parse(&text));
        parsed.map(Some).map_err(said)
    }

    /// As the file has it.
    pub fn written(&self) -> String {
        let mut text = format!("{HEAD}{FORMAT}\nnode {}\n", self.node_id);
        if let Some(Home { cluster_id, history }) = &self.home {
            let history = history.map_or(0, |history| history.0);
            let _infallible = writeln!(text, "cluster {cluster_id} {history:032x}");
        }
        summed(text)
    }
}

fn parse(text: &str) -> Result<NodeFile, String> {
    let (mut node_id, mut home) = (None, None);
    for line in entries(text, HEAD, FORMAT)? {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["node", id] => node_id = id.parse().ok(),
            ["cluster", id, history] => {
                let history = u128::from_str_radix(history, 16).ok().filter(|id| *id != 0).map(HistoryId);
                home = Some(Home { cluster_id: id.to_owned(), history });
            }
            _ => return Err(format!("the line `{line}` cannot be parsed")),
        }
    }
    Ok(NodeFile { node_id: node_id.ok_or("it names no node")?, home })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let joined = Home { cluster_id: "Yttwl7IA38MerMsVIr99SQ".to_owned(), history: Some(HistoryId(7)) };
        let imported = Home { history: None, ..joined.clone() };
        for home in [None, Some(joined), Some(imported)] {
            let file = NodeFile { node_id: 3, home };
            assert_eq!(parse(&file.written()), Ok(file));
        }
    }

    #[test]
    fn a_damaged_file_is_refused() {
        let text = NodeFile { node_id: 3, home: None }.written();
        assert_eq!(parse(&text.replace("node 3", "node 4")).unwrap_err(), "its checksum is wrong");
        let unnamed = summed(format!("{HEAD}{FORMAT}\n"));
        assert_eq!(parse(&unnamed).unwrap_err(), "it names no node");
        let odd = summed(format!("{HEAD}{FORMAT}\nnode 3\nrack a\n"));
        assert_eq!(parse(&odd).unwrap_err(), "the line `rack a` cannot be parsed");
    }
}
