//! The subject of a certificate as text, as Java's `X500Principal.getName` writes it: RFC 2253, last name first.

use std::fmt::Write as _;

use rustls_pki_types::CertificateDer;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
const VERSION: u8 = 0xa0;
/// Strings of UTF-8 or ASCII.
const TEXTS: [u8; 4] = [0x0c, 0x13, 0x14, 0x16];
/// A string of UTF-16.
const BMP_STRING: u8 = 0x1e;

/// The types of names that have a word, by object identifier.
const WORDS: [(&[u8], &str); 9] = [
    (&[0x55, 4, 3], "CN"),
    (&[0x55, 4, 7], "L"),
    (&[0x55, 4, 8], "ST"),
    (&[0x55, 4, 10], "O"),
    (&[0x55, 4, 11], "OU"),
    (&[0x55, 4, 6], "C"),
    (&[0x55, 4, 9], "STREET"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25], "DC"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1], "UID"),
];

/// An element of DER: its tag, its content, and all its bytes.
struct Element<'d> {
    tag: u8,
    content: &'d [u8],
    whole: &'d [u8],
}

/// Takes the first element of `der`.
fn take<'d>(der: &mut &'d [u8]) -> Option<Element<'d>> {
    let (tag, first) = (*der.first()?, *der.get(1)?);
    let (head, length) = if first < 0x80 {
        (2, usize::from(first))
    } else {
        let bytes = usize::from(first & 0x7f);
        let digits = der.get(2..2 + bytes).filter(|_| (1..=4).contains(&bytes))?;
        (2 + bytes, digits.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)))
    };
    let whole = der.get(..head.checked_add(length)?)?;
    *der = &der[whole.len()..];
    Some(Element { tag, content: &whole[head..], whole })
}

fn take_tagged<'d>(der: &mut &'d [u8], tag: u8) -> Option<&'d [u8]> {
    take(der).filter(|element| element.tag == tag).map(|element| element.content)
}

/// Returns the subject of a certificate; `None` if it is malformed.
pub fn subject(certificate: &CertificateDer<'_>) -> Option<String> {
    let mut certificate = take_tagged(&mut certificate.as_ref(), SEQUENCE)?;
    let mut signed = take_tagged(&mut certificate, SEQUENCE)?;
    let first = take(&mut signed)?;
    // Serial number, signature, issuer, validity; the version is optional.
    for _ in 0..if first.tag == VERSION { 4 } else { 3 } {
        take(&mut signed)?;
    }
    text(take(&mut signed)?.whole)
}

/// Returns a distinguished name in DER as text.
fn text(mut name: &[u8]) -> Option<String> {
    let mut sets = take_tagged(&mut name, SEQUENCE)?;
    let mut parts = Vec::new();
    while !sets.is_empty() {
        let mut set = take_tagged(&mut sets, SET)?;
        let mut values = Vec::new();
        while !set.is_empty() {
            let mut pair = take_tagged(&mut set, SEQUENCE)?;
            let id = take_tagged(&mut pair, OBJECT_IDENTIFIER)?;
            values.push(part(id, &take(&mut pair)?)?);
        }
        parts.push(values.join("+"));
    }
    parts.reverse();
    Some(parts.join(","))
}

fn part(id: &[u8], value: &Element<'_>) -> Option<String> {
    let word = WORDS.iter().find(|(known, _)| *known == id).map(|(_, word)| *word);
    let text = match (word, value.tag) {
        (Some(_), tag) if TEXTS.contains(&tag) => std::str::from_utf8(value.content).ok().map(str::to_owned),
        (Some(_), BMP_STRING) => {
            let units = value.content.chunks_exact(2).map(|unit| u16::from_be_bytes([unit[0], unit[1]]));
            char::decode_utf16(units).collect::<Result<String, _>>().ok()
        }
        _ => None,
    };
    match (word, text) {
        (Some(word), Some(text)) => Some(format!("{word}={}", escaped(&text))),
        (word, _) => {
            let word = word.map_or_else(|| dotted(id), |word| Some(word.to_owned()))?;
            let hex = value.whole.iter().fold(String::new(), |mut hex, byte| {
                let _infallible = write!(hex, "{byte:02x}");
                hex
            });
            Some(format!("{word}=#{hex}"))
        }
    }
}

/// Escapes what has a meaning in a name, and blanks at the ends.
fn escaped(text: &str) -> String {
    let first = text.len() - text.trim_start_matches(' ').len();
    let last = text.trim_end_matches(' ').len();
    let mut escaped = String::with_capacity(text.len());
    for (at, char) in text.char_indices() {
        match char {
            '\0' => escaped.push_str("\\00"),
            ',' | '=' | '+' | '<' | '>' | '#' | ';' | '"' | '\\' => escaped.extend(['\\', char]),
            ' ' if at < first || at >= last => escaped.push_str("\\ "),
            _ => escaped.push(char),
        }
    }
    escaped
}

/// Returns an object identifier as numbers with dots.
fn dotted(id: &[u8]) -> Option<String> {
    let mut numbers = Vec::new();
    let mut number: u64 = 0;
    for byte in id {
        number = number.checked_mul(0x80)? + u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            numbers.push(number);
            number = 0;
        }
    }
    let first = *numbers.first()?;
    let top = (first / 40).min(2);
    let mut text = format!("{top}.{}", first - top * 40);
    for number in &numbers[1..] {
        let _infallible = write!(text, ".{number}");
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{authority::Authority, pem, pem::Source};

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    /// Names in DER, and what `X500Principal.getName()` of Java 17 makes of them.
    const OF_JAVA: [(&str, &str); 12] = [
        ("300e310c300a06035504031303616e61", "CN=ana"),
        (
            "3054310b3009060355040613024445310b3009060355040813024259310a3008060355040713017831123010060355040a1309526f7461\
             2c20496e63310a3008060355040b130171310c300a06035504031303616e61",
            "CN=ana,OU=q,O=Rota\\, Inc,L=x,ST=BY,C=DE",
        ),
        ("301831163008060355040b130171300a06035504031303616e61", "OU=q+CN=ana"),
        ("30193117301506035504030c0e613d6223633c643e3b652b66225c", "CN=a\\=b\\#c\\<d\\>\\;e\\+f\\\"\\\\"),
        ("3017311530130603550403130c206c65616420747261696c20", "CN=\\ lead trail\\ "),
        ("3010310e300c06035504030c052368617368", "CN=\\#hash"),
        ("30123110300e06035504030c076772c3b6c39f65", "CN=größe"),
        (
            "304d310a3008060355040913017331133011060a0992268993f22c6401191603636f6d31173015060a0992268993f22c640119160765\
             78616d706c653111300f060a0992268993f22c640101130175",
            "UID=u,DC=example,DC=com,STREET=s",
        ),
        (
            "3022310a300806035504031301783114301206092a864886f70d01090116056140622e63",
            "1.2.840.113549.1.9.1=#16056140622e63,CN=x",
        ),
        (
            "3028310a30080603550403130179310a30080603550405130135310e300c060355040c13057469746c65",
            "2.5.4.12=#13057469746c65,2.5.4.5=#130135,CN=y",
        ),
        ("300e310c300a06035504030c03610062", "CN=a\\00b"),
        ("3000", ""),
    ];

    #[test]
    fn names_are_written_as_by_java() {
        for (hex, expected) in OF_JAVA {
            assert_eq!(text(&bytes(hex)).as_deref(), Some(expected));
        }
    }

    #[test]
    fn a_cut_or_changed_name_is_refused_without_a_panic() {
        for (hex, _) in OF_JAVA {
            let whole = bytes(hex);
            for end in 0..whole.len() {
                assert_eq!(text(&whole[..end]), None);
                for value in [0, 0x7f, 0x80, 0x84, 0xff] {
                    let mut changed = whole.clone();
                    changed[end] = value;
                    let _some_text = text(&changed);
                }
            }
        }
    }

    #[test]
    fn the_subject_of_a_certificate_is_found() {
        let issued = Authority::new().unwrap().issue(&["localhost".to_owned()], "ana", false).unwrap();
        let chain = pem::certificates(&Source::Inline("test", issued.certificate)).unwrap();
        assert_eq!(subject(&chain[0]).as_deref(), Some("CN=ana"));
    }
}
