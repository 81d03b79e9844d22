//! Who may do what, for operators and tests.

use std::io;

use rota_security::acl::Binding;

use super::Server;

impl Server {
    /// Returns the ACLs; `None`: without an authorizer.
    pub fn acls(&self) -> Option<Vec<Binding>> {
        let acls = self.shared.acls()?;
        Some(acls.authorizer().table.iter().cloned().collect())
    }

    /// Replaces all ACLs. They count for every request after this. Errors: they cannot be stored; there is no authorizer.
    pub fn set_acls(&self, bindings: Vec<Binding>) -> io::Result<()> {
        let acls = self.shared.acls().ok_or_else(|| {
            io::Error::new(io::ErrorKind::Unsupported, "the server has no authorizer: start it with ACLs")
        })?;
        acls.change(|_| bindings.into_iter().collect())
    }

    /// Returns what clients were refused, in the words of Kafka's log, since the last call.
    pub fn take_denials(&self) -> Vec<String> {
        self.shared.denials().take_lines()
    }
}
