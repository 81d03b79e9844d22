//! `rota.assign`: assignors and the certifier, by name and on arrays.

use std::sync::{Mutex, PoisonError};

use pyo3::{create_exception, exceptions::PyValueError, prelude::*};
use rota_assign::{
    NOBODY, Problem, Racks, Scratch,
    certify::{self, Rule},
    claims, names,
    user_data::{self, Remembered},
};
use rota_core::embedded::TopicPartitions;

use crate::{
    arrays::{Array, array},
    errors::{EmbeddedError, RotaError},
    plain::plain,
    values::{Octets, Tuple},
};

create_exception!(
    rota.assign,
    InputError,
    RotaError,
    "Invalid input of an assignor; the message names the member, topic or argument."
);
create_exception!(
    rota.assign,
    PlanError,
    RotaError,
    "A plan that is incomplete, not disjoint, or assigns unsubscribed topics."
);

plain! {
    /// Measurements of a correct plan.
    "rota.assign" Certificate {
        /// Number of partitions by member, in input order.
        loads: Tuple<u32>,
        /// The smallest load of a member with a subscription.
        min_load: u32,
        /// The largest load of a member with a subscription.
        max_load: u32,
        /// Sum of the load differences of all pairs of members.
        imbalance: u64,
        /// Partitions that stay with their previous owner.
        kept: u32,
        /// Partitions that move between members.
        moved: u32,
        /// Assigned partitions that had no owner, or several.
        fresh: u32,
        /// Partitions that wait until another member revokes them.
        withheld: u32,
        /// Partitions whose owner's rack has no replica.
        away: u32,
        /// Whether no single move makes two loads more even.
        locally_balanced: bool,
        /// Whether no other plan has more even loads.
        best_balance: bool,
    }
}

impl Certificate {
    /// `places` has the input position of each canonical index.
    fn of(certificate: certify::Certificate, places: Option<&[usize]>) -> Certificate {
        let mut loads = certificate.loads.clone();
        for (&place, load) in places.unwrap_or_default().iter().zip(&certificate.loads) {
            loads[place] = *load;
        }
        Certificate {
            loads: Tuple(loads),
            min_load: certificate.min_load,
            max_load: certificate.max_load,
            imbalance: certificate.imbalance,
            kept: certificate.kept,
            moved: certificate.moved,
            fresh: certificate.fresh,
            withheld: certificate.withheld,
            away: certificate.away,
            locally_balanced: certificate.locally_balanced,
            best_balance: certificate.best_balance,
        }
    }
}

/// (member id, instance id, topics, owned partitions, generation, rack, user data).
type NamedMember = (String, Option<String>, Vec<String>, Vec<(String, i32)>, i32, Option<String>, Option<Octets>);
/// (topic, number of partitions, racks of each partition's replicas; empty if unknown).
type NamedTopic = (String, i64, Vec<Vec<String>>);

fn borrowed<'a>(
    members: &'a [NamedMember],
    topics: &'a [NamedTopic],
) -> (Vec<names::Member<'a>>, Vec<names::Topic<'a>>) {
    let member = |(id, instance_id, topics, owned, generation, rack, user_data): &'a NamedMember| names::Member {
        id,
        instance_id: instance_id.as_deref(),
        topics: topics.iter().map(String::as_str).collect(),
        owned: owned.iter().map(|(topic, partition)| (topic.as_str(), *partition)).collect(),
        generation: *generation,
        rack: rack.as_deref(),
        user_data: user_data.as_ref().map(|bytes| &*bytes.0),
    };
    let topic = |(name, partitions, racks): &'a NamedTopic| names::Topic {
        name,
        partitions: *partitions,
        racks: racks.iter().map(|racks| racks.iter().map(String::as_str).collect()).collect(),
    };
    (members.iter().map(member).collect(), topics.iter().map(topic).collect())
}

pub(crate) fn named(assignor: &str) -> PyResult<names::Assignor> {
    names::Assignor::named(assignor).ok_or_else(|| {
        let known = names::Assignor::ALL.map(names::Assignor::name).join(", ");
        InputError::new_err(format!("there is no assignor `{assignor}`: choose one of {known}"))
    })
}

fn refused(error: impl ToString) -> PyErr {
    InputError::new_err(error.to_string())
}

fn invalid(error: impl ToString) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Assigns by name. Returns the partitions of each member, in input order.
#[pyfunction]
fn assign_names(
    py: Python<'_>,
    assignor: &str,
    members: Vec<NamedMember>,
    topics: Vec<NamedTopic>,
) -> PyResult<Vec<Vec<(String, u32)>>> {
    let assignor = named(assignor)?;
    py.detach(|| {
        let (members, topics) = borrowed(&members, &topics);
        let group = names::Group::new(&members, &topics, assignor).map_err(refused)?;
        let owners = group.assign(assignor, &mut Scratch::default()).map_err(refused)?;
        let mut plan = vec![Vec::new(); members.len()];
        for (partition, &owner) in (0_u32..).zip(&owners) {
            if owner != NOBODY {
                let (topic, index) = group.locate(partition);
                plan[group.members[owner as usize]].push((topics[group.topics[topic]].name.to_owned(), index));
            }
        }
        Ok(plan)
    })
}

/// Checks and measures a plan by name: the partitions of each member, in the order of the members.
#[pyfunction]
fn certify_names(
    py: Python<'_>,
    assignor: &str,
    members: Vec<NamedMember>,
    topics: Vec<NamedTopic>,
    plan: Vec<Vec<(String, i64)>>,
    cooperative: bool,
) -> PyResult<Certificate> {
    let assignor = named(assignor)?;
    py.detach(|| {
        let (members, topics) = borrowed(&members, &topics);
        let group = names::Group::new(&members, &topics, assignor).map_err(refused)?;
        let problem = group.problem().map_err(refused)?;
        let previous = group.previous(&problem).map_err(refused)?;
        let (mut starts, mut partitions) = (vec![0], Vec::new());
        for &place in &group.members {
            for (topic, index) in plan.get(place).into_iter().flatten() {
                let number = group.number(&topics, topic, *index).ok_or_else(|| {
                    let id = members[place].id;
                    PlanError::new_err(format!(
                        "member `{id}` got partition {index} of topic `{topic}`, which does not exist"
                    ))
                })?;
                partitions.push(number);
            }
            starts.push(partitions.len() as u32);
        }
        let rule = if cooperative { Rule::Cooperative } else { Rule::Eager };
        let mut owners = Vec::new();
        let certificate = certify::merge(&problem, &starts, &partitions, &mut owners)
            .and_then(|()| certify::certify(&problem, &previous, &owners, rule))
            .map_err(|violation| PlanError::new_err(group.explain(&violation, &members, &topics)))?;
        Ok(Certificate::of(certificate, Some(&group.members)))
    })
}

/// (topic, partitions).
type Listed = (String, Tuple<i32>);

/// Encodes the user data of `sticky`. Raises `EmbeddedError`.
#[pyfunction]
fn encode_sticky_user_data(partitions: Vec<Listed>, generation: i32) -> PyResult<Octets> {
    let topic = |(topic, partitions): Listed| TopicPartitions { topic, partitions: partitions.0 };
    let remembered = Remembered { partitions: partitions.into_iter().map(topic).collect(), generation };
    let bytes = user_data::encode_sticky(&remembered);
    bytes.map(|bytes| Octets(bytes.into())).map_err(|error| EmbeddedError::new_err(error.to_string()))
}

/// Decodes the user data of `sticky`: (partitions by topic, generation).
#[pyfunction]
fn decode_sticky_user_data(data: Octets) -> (Tuple<Listed>, i32) {
    let Remembered { partitions, generation } = user_data::decode_sticky(&data.0);
    (partitions.into_iter().map(|one| (one.topic, Tuple(one.partitions))).collect(), generation)
}

/// Encodes the user data of `cooperative-sticky`.
#[pyfunction]
fn encode_cooperative_sticky_user_data(generation: i32) -> Octets {
    Octets(user_data::encode_cooperative_sticky(generation).into())
}

/// Decodes the user data of `cooperative-sticky`: the generation, or -1.
#[pyfunction]
fn decode_cooperative_sticky_user_data(data: Octets) -> i32 {
    user_data::decode_cooperative_sticky(&data.0)
}

/// A group on arrays: members, topics and partitions are numbers.
#[pyclass(frozen, module = "rota.assign")]
pub struct FlatGroup {
    topic_starts: Vec<u32>,
    member_starts: Vec<u32>,
    subscriptions: Vec<u32>,
    racks: Option<(Vec<u32>, Vec<u32>, Vec<u32>)>,
    scratch: Mutex<Scratch>,
}

impl FlatGroup {
    fn problem(&self) -> PyResult<Problem<'_>> {
        let racks = self.racks.as_ref().map(|(members, starts, replicas)| Racks { members, starts, replicas });
        Problem::new(&self.topic_starts, &self.member_starts, &self.subscriptions, racks).map_err(invalid)
    }

    fn owners(problem: &Problem<'_>, array: &'static str, owners: Option<Array<u32>>) -> PyResult<Vec<u32>> {
        let Some(Array(owners)) = owners else { return Ok(vec![NOBODY; problem.partitions() as usize]) };
        problem.check_owners(array, &owners).map_err(invalid)?;
        Ok(owners)
    }
}

#[pymethods]
impl FlatGroup {
    #[new]
    #[pyo3(signature = (topic_starts, member_starts, subscriptions, *, member_racks=None, rack_starts=None, replica_racks=None))]
    fn new(
        topic_starts: Array<u32>,
        member_starts: Array<u32>,
        subscriptions: Array<u32>,
        member_racks: Option<Array<u32>>,
        rack_starts: Option<Array<u32>>,
        replica_racks: Option<Array<u32>>,
    ) -> PyResult<FlatGroup> {
        let racks = match (member_racks, rack_starts, replica_racks) {
            (Some(members), Some(starts), Some(replicas)) => Some((members.0, starts.0, replicas.0)),
            (None, None, None) => None,
            _ => return Err(invalid("give `member_racks`, `rack_starts` and `replica_racks` together, or none")),
        };
        let group = FlatGroup {
            topic_starts: topic_starts.0,
            member_starts: member_starts.0,
            subscriptions: subscriptions.0,
            racks,
            scratch: Mutex::default(),
        };
        group.problem()?;
        Ok(group)
    }

    /// Returns the owner of each partition, by the named assignor.
    #[pyo3(signature = (assignor, previous=None))]
    fn assign<'py>(
        &self,
        py: Python<'py>,
        assignor: &str,
        previous: Option<Array<u32>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (assignor, problem) = (named(assignor)?, self.problem()?);
        let previous = FlatGroup::owners(&problem, "previous", previous)?;
        let owners = py.detach(|| {
            let mut scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
            let mut owners = Vec::new();
            names::plan(assignor, &problem, &previous, &mut scratch, &mut owners);
            owners
        });
        array(py, &owners)
    }

    /// Resolves claims of members to previous owners.
    fn resolve<'py>(
        &self,
        py: Python<'py>,
        claim_starts: Array<u32>,
        claims: Array<u32>,
        generations: Array<i32>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let problem = self.problem()?;
        let (starts, partitions) = (claim_starts.0, claims.0);
        let generations = generations.0;
        let previous = py.detach(|| {
            let claims = claims::Claims { starts: &starts, partitions: &partitions, generations: &generations };
            let mut previous = Vec::new();
            claims.resolve(&problem, &mut previous).map(|()| previous)
        });
        array(py, &previous.map_err(invalid)?)
    }

    /// Checks and measures a plan.
    #[pyo3(signature = (owners, previous=None, *, cooperative=false))]
    fn certify(
        &self,
        py: Python<'_>,
        owners: Array<u32>,
        previous: Option<Array<u32>>,
        cooperative: bool,
    ) -> PyResult<Certificate> {
        let problem = self.problem()?;
        let previous = FlatGroup::owners(&problem, "previous", previous)?;
        let owners = owners.0;
        let rule = if cooperative { Rule::Cooperative } else { Rule::Eager };
        let certificate = py.detach(|| certify::certify(&problem, &previous, &owners, rule));
        certificate
            .map(|certificate| Certificate::of(certificate, None))
            .map_err(|violation| PlanError::new_err(violation.to_string()))
    }

    fn __repr__(&self) -> PyResult<String> {
        let problem = self.problem()?;
        let (members, partitions) = (problem.members(), problem.partitions());
        Ok(format!("<rota.assign.FlatGroup of {members} members and {partitions} partitions>"))
    }
}

/// Adds the functions and classes to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("InputError", py.get_type::<InputError>())?;
    module.add("PlanError", py.get_type::<PlanError>())?;
    module.add_class::<Certificate>()?;
    module.add_class::<FlatGroup>()?;
    module.add_function(wrap_pyfunction!(assign_names, module)?)?;
    module.add_function(wrap_pyfunction!(certify_names, module)?)?;
    module.add_function(wrap_pyfunction!(encode_sticky_user_data, module)?)?;
    module.add_function(wrap_pyfunction!(decode_sticky_user_data, module)?)?;
    module.add_function(wrap_pyfunction!(encode_cooperative_sticky_user_data, module)?)?;
    module.add_function(wrap_pyfunction!(decode_cooperative_sticky_user_data, module)?)
}
