//! Plain frozen classes: the methods of `#[pyclass]` around a struct of values.

use pyo3::{
    prelude::*,
    types::{PyDict, PyTuple, PyType},
};

/// Formats `ClassName(field=value, ...)`, with the `repr` of every value.
pub fn repr_of(object: &Bound<'_, PyAny>, fields: &[&str]) -> PyResult<String> {
    let mut text = object.get_type().name()?.to_string();
    text.push('(');
    for (at, field) in fields.iter().enumerate() {
        let separator = if at == 0 { "" } else { ", " };
        let value = object.getattr(*field)?.repr()?;
        text.extend([separator, field, "=", &value.to_cow()?]);
    }
    text.push(')');
    Ok(text)
}

/// Returns the names that a `case Class(...)` pattern binds, in order.
pub fn match_args<'py>(py: Python<'py>, fields: &[&str]) -> PyResult<Bound<'py, PyTuple>> {
    PyTuple::new(py, fields)
}

/// A class, no positional arguments, and the keyword arguments of its constructor.
pub type Parts<'py> = (Bound<'py, PyType>, (), Bound<'py, PyDict>);

/// Returns what a pickle or a copy is made of: a function, and its arguments for an equal object.
pub fn reduced<'py>(object: &Bound<'py, PyAny>, fields: &[&str]) -> PyResult<(Bound<'py, PyAny>, Parts<'py>)> {
    let arguments = PyDict::new(object.py());
    for field in fields {
        arguments.set_item(*field, object.getattr(*field)?)?;
    }
    let make = object.py().import("copyreg")?.getattr("__newobj_ex__")?;
    Ok((make, (object.get_type(), (), arguments)))
}

/// Defines a frozen class of public fields: constructor in field order, equality, hash, `repr` and patterns.
///
/// A string before the name is its Python module, `rota.protocol` by default. `shown` is the signature for
/// documentation, where defaults are not literals. `methods` adds methods. `methods new` and `order`, the order of fields
/// in `repr` and patterns, bring a constructor.
macro_rules! plain {
    (
        $(#[$doc:meta])*
        $($module:literal)? $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty $(= $default:expr)?,)+ }
        $(shown $signature:literal)?
        $(methods { $($method:tt)* })?
    ) => {
        $crate::plain::plain! {
            $(#[$doc])*
            $($module)? $name { $($(#[$field_doc])* $field: $type,)+ }
            methods new {
                #[new]
                #[pyo3(signature = ($($field $(= $default)?),+) $(, text_signature = $signature)?)]
                #[expect(clippy::allow_attributes, reason = "holds in some of the classes only")]
                #[allow(clippy::too_many_arguments, reason = "a class has as many arguments as its message has fields")]
                fn new($($field: $type),+) -> Self {
                    $name { $($field),+ }
                }
                $($($method)*)?
            }
        }
    };
    (
        $(#[$doc:meta])*
        $($module:literal)? $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)+ }
        methods new { $($method:tt)* }
    ) => {
        $crate::plain::plain! {
            $(#[$doc])*
            $($module)? $name { $($(#[$field_doc])* $field: $type,)+ }
            order ($($field),+)
            methods { $($method)* }
        }
    };
    (
        $(#[$doc:meta])*
        $name:ident $($rest:tt)+
    ) => {
        $crate::plain::plain! { $(#[$doc])* "rota.protocol" $name $($rest)+ }
    };
    (
        $(#[$doc:meta])*
        $module:literal $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)+ }
        order ($($shown:ident),+)
        methods { $($method:tt)* }
    ) => {
        $(#[$doc])*
        #[pyo3::pyclass(frozen, eq, hash, get_all, from_py_object, module = $module)]
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub struct $name { $($(#[$field_doc])* pub $field: $type,)+ }

        #[pyo3::pymethods]
        impl $name {
            $($method)*

            #[classattr]
            fn __match_args__(py: pyo3::Python<'_>) -> pyo3::PyResult<pyo3::Bound<'_, pyo3::types::PyTuple>> {
                $crate::plain::match_args(py, &[$(stringify!($shown)),+])
            }

            fn __reduce__<'py>(
                slf: &pyo3::Bound<'py, Self>,
            ) -> pyo3::PyResult<(pyo3::Bound<'py, pyo3::PyAny>, $crate::plain::Parts<'py>)> {
                $crate::plain::reduced(slf.as_any(), &[$(stringify!($shown)),+])
            }

            fn __repr__(slf: &pyo3::Bound<'_, Self>) -> pyo3::PyResult<String> {
                $crate::plain::repr_of(slf.as_any(), &[$(stringify!($shown)),+])
            }
        }
    };
}
pub(crate) use plain;
