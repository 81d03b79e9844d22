//! Claims of members about owned partitions, and their resolution.

use crate::problem::{CONTESTED, NOBODY, Problem, ProblemError};

/// Claimed partitions, as flat arrays.
#[derive(Clone, Copy, Debug)]
pub struct Claims<'a> {
    /// By member, plus one element: start of its list in `partitions`.
    pub starts: &'a [u32],
    /// Existing partitions.
    pub partitions: &'a [u32],
    /// By member: the generation of its claims; -1 or less: unknown.
    pub generations: &'a [i32],
}

impl Claims<'_> {
    /// Resolves the claims to one owner per partition: the claim of the newest generation wins. Several claims of that
    /// generation leave no owner ([`CONTESTED`]). The order of the members does not matter.
    pub fn resolve(&self, problem: &Problem<'_>, previous: &mut Vec<u32>) -> Result<(), ProblemError> {
        self.check(problem)?;
        previous.clear();
        previous.resize(problem.partitions() as usize, NOBODY);
        if self.is_of_one_generation(problem) {
            for member in 0..problem.members() {
                for &partition in self.of(member) {
                    let owner = &mut previous[partition as usize];
                    if *owner != member {
                        *owner = if *owner == NOBODY { member } else { CONTESTED };
                    }
                }
            }
            return Ok(());
        }
        let mut newest = vec![i32::MIN; previous.len()];
        for member in 0..problem.members() {
            let generation = self.generations[member as usize].max(-1);
            for &partition in self.of(member) {
                let (owner, newest) = (&mut previous[partition as usize], &mut newest[partition as usize]);
                if *owner == member {
                    continue; // the same claim twice
                }
                if generation > *newest {
                    (*owner, *newest) = (member, generation);
                } else if generation == *newest {
                    *owner = CONTESTED;
                }
            }
        }
        Ok(())
    }

    /// Whether all claims are of one generation, as usual unless a member missed a round.
    fn is_of_one_generation(&self, problem: &Problem<'_>) -> bool {
        let claimants = (0..problem.members()).filter(|&member| !self.of(member).is_empty());
        let mut generations = claimants.map(|member| self.generations[member as usize].max(-1));
        let first = generations.next();
        generations.all(|generation| Some(generation) == first)
    }

    fn of(&self, member: u32) -> &[u32] {
        &self.partitions[self.starts[member as usize] as usize..self.starts[member as usize + 1] as usize]
    }

    fn check(&self, problem: &Problem<'_>) -> Result<(), ProblemError> {
        for (array, found, expected) in [
            ("claims.starts", self.starts.len(), problem.members() as usize + 1),
            ("claims.generations", self.generations.len(), problem.members() as usize),
        ] {
            if found != expected {
                return Err(ProblemError::Length { array, found, expected });
            }
        }
        let falls = self.starts.windows(2).position(|pair| pair[0] > pair[1]);
        if self.starts[0] != 0 || falls.is_some() {
            return Err(ProblemError::Starts { array: "claims.starts", at: falls.map_or(0, |at| at + 1) });
        }
        if self.starts[self.starts.len() - 1] as usize != self.partitions.len() {
            return Err(ProblemError::Starts { array: "claims.starts", at: self.starts.len() - 1 });
        }
        match self.partitions.iter().position(|&partition| partition >= problem.partitions()) {
            Some(at) => Err(ProblemError::Owner { partition: self.partitions[at], owner: at as u32 }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Resolves the claims of three members on four partitions.
    fn resolved(claims: [(&[u32], i32); 3]) -> Vec<u32> {
        let problem = Problem::new(&[0, 4], &[0, 1, 2, 3], &[0, 0, 0], None).unwrap();
        let mut starts = vec![0];
        let (mut partitions, mut generations) = (vec![], vec![]);
        for (claimed, generation) in claims {
            partitions.extend_from_slice(claimed);
            starts.push(partitions.len() as u32);
            generations.push(generation);
        }
        let claims = Claims { starts: &starts, partitions: &partitions, generations: &generations };
        let mut previous = Vec::new();
        claims.resolve(&problem, &mut previous).unwrap();
        previous
    }

    #[test]
    fn the_newest_generation_wins() {
        assert_eq!(resolved([(&[0, 1], 3), (&[0, 1, 2, 3], 5), (&[], 9)]), [1, 1, 1, 1]);
        assert_eq!(resolved([(&[0, 1], 5), (&[1, 2], -1), (&[3], -7)]), [0, 0, 1, 2]);
    }

    #[test]
    fn equal_generations_void_each_other_and_a_newer_one_wins_in_every_order() {
        assert_eq!(resolved([(&[0, 1], 1), (&[0, 2], 1), (&[], 1)]), [CONTESTED, 0, 1, NOBODY]);
        assert_eq!(resolved([(&[0], 1), (&[0], 1), (&[0], 2)])[0], 2);
        assert_eq!(resolved([(&[0], 2), (&[0], 1), (&[0], 1)])[0], 0);
        assert_eq!(resolved([(&[0], 1), (&[0], 2), (&[0], 1)])[0], 1);
        assert_eq!(resolved([(&[0], 2), (&[0], 2), (&[0], 1)])[0], CONTESTED);
    }

    #[test]
    fn a_claim_made_twice_is_one_claim() {
        assert_eq!(resolved([(&[0, 0], 1), (&[], 1), (&[], 1)])[0], 0);
    }
}
