//! Tokens of a throw-away issuer, and of the examples in RFC 7515.

use proptest::prelude::*;
use serde_json::json;

use super::{issuer::Issuer, *};

const NOW_S: i64 = 1_700_000_000;

fn rules() -> Rules {
    let audiences = vec!["kafka".to_owned(), "other".to_owned()];
    Rules { audiences, issuer: Some("https://issuer.test".to_owned()), ..Rules::default() }
}

fn claims() -> Value {
    json!({"sub": "ana", "iss": "https://issuer.test", "aud": "kafka", "iat": NOW_S, "exp": NOW_S + 60})
}

fn with(changes: Value) -> Value {
    let mut claims = claims();
    let (Some(all), Value::Object(changes)) = (claims.as_object_mut(), changes) else { return claims };
    for (name, value) in changes {
        match value {
            Value::Null => all.remove(&name),
            value => all.insert(name, value),
        };
    }
    claims
}

fn verifier(issuers: &[&Issuer], rules: Rules) -> Verifier {
    let keys: Vec<String> = issuers.iter().map(|issuer| issuer.key()).collect();
    let keys = Keys::of_text(&format!(r#"{{"keys":[{}]}}"#, keys.join(","))).unwrap();
    Verifier { rules, keys: Arc::new(keys) }
}

fn verified(claims: &Value, rules: Rules) -> Result<Bearer, BadToken> {
    let issuer = Issuer::new("one").unwrap();
    verifier(&[&issuer], rules).verify(&issuer.sign(&claims.to_string()).unwrap(), NOW_S * 1_000)
}

#[test]
fn a_good_token_names_its_principal_and_its_end() {
    let bearer = verified(&claims(), rules()).unwrap();
    assert_eq!(bearer, Bearer { name: "ana".to_owned(), expires_ms: (NOW_S + 60) * 1_000 });
}

#[test]
fn claims_decide() {
    let skew = CLOCK_SKEW_S;
    let cases = [
        (json!({"exp": NOW_S - skew + 1, "iat": 0}), Ok(())),
        (json!({"exp": NOW_S - skew, "iat": 0}), Err(BadToken::Expired)),
        (json!({"exp": null}), Err(BadToken::Claims)),
        (json!({"exp": "1700000060"}), Err(BadToken::Claims)),
        (json!({"exp": 1e300}), Ok(())),
        (json!({"exp": NOW_S + 9, "iat": NOW_S + 10}), Err(BadToken::Expired)),
        (json!({"exp": NOW_S + 9, "nbf": NOW_S + 10}), Err(BadToken::Expired)),
        (json!({"iat": null}), Err(BadToken::Claims)),
        (json!({"nbf": NOW_S + skew}), Ok(())),
        (json!({"nbf": NOW_S + skew + 1}), Err(BadToken::NotYetValid)),
        (json!({"iss": "https://other.test"}), Err(BadToken::Issuer)),
        (json!({"iss": null}), Err(BadToken::Issuer)),
        (json!({"aud": "kafka2"}), Err(BadToken::Audience)),
        (json!({"aud": null}), Err(BadToken::Audience)),
        (json!({"aud": ["a", "other"]}), Ok(())),
        (json!({"aud": []}), Err(BadToken::Audience)),
        (json!({"aud": 5}), Err(BadToken::Audience)),
        (json!({"scope": ["one", "two"]}), Ok(())),
        (json!({"scope": "one two"}), Ok(())),
        (json!({"scope": ["one", " one"]}), Err(BadToken::Claims)),
        (json!({"scope": " "}), Err(BadToken::Claims)),
        (json!({"scope": 7}), Ok(())),
        (json!({"sub": null}), Err(BadToken::Subject)),
        (json!({"sub": " "}), Err(BadToken::Subject)),
        (json!({"sub": 5}), Err(BadToken::Subject)),
        (json!({"sub": "ana\nUser:admin"}), Err(BadToken::Subject)),
    ];
    for (changes, expected) in cases {
        assert_eq!(verified(&with(changes.clone()), rules()).map(|_| ()), expected, "{changes}");
    }
}

#[test]
fn without_an_expected_issuer_any_is_accepted_without_expected_audiences_none() {
    let open = Rules::default();
    assert_eq!(verified(&with(json!({"iss": null, "aud": null})), open.clone()).map(|_| ()), Ok(()));
    assert_eq!(verified(&claims(), open).map(|_| ()), Err(BadToken::Audience));
}

#[test]
fn the_principal_is_in_the_claim_that_the_rules_name() {
    let rules = Rules { subject_claim: "azp".to_owned(), scope_claim: "scp".to_owned(), ..rules() };
    assert_eq!(verified(&with(json!({"azp": " shipping "})), rules.clone()).unwrap().name, "shipping");
    assert_eq!(verified(&claims(), rules.clone()), Err(BadToken::Subject));
    assert_eq!(verified(&with(json!({"azp": "a", "scp": [5]})), rules), Err(BadToken::Claims));
}

#[test]
fn a_signature_is_of_the_key_that_the_token_names() {
    let [one, two, eve] = ["one", "two", "one"].map(|id| Issuer::new(id).unwrap());
    let verifier = verifier(&[&one, &two], rules());
    let verify = |issuer: &Issuer| verifier.verify(&issuer.sign(&claims().to_string()).unwrap(), NOW_S * 1_000);
    assert!(verify(&one).is_ok() && verify(&two).is_ok());
    assert_eq!(verify(&eve), Err(BadToken::Signature));
    assert_eq!(verify(&Issuer::new("three").unwrap()), Err(BadToken::UnknownKey));
}

fn token(header: &str, claims: &Value, signature: &str) -> String {
    format!("{}.{}.{signature}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims.to_string()))
}

#[test]
fn an_unsecured_token_is_accepted_by_a_switch_only() {
    let unsecured = token(r#"{"alg":"none"}"#, &with(json!({"iat": null})), "");
    let verify = |token: &str, allow_unsecured| {
        let verifier = Verifier { rules: Rules { allow_unsecured, ..rules() }, ..Verifier::default() };
        verifier.verify(token, NOW_S * 1_000)
    };
    assert_eq!(verify(&unsecured, false), Err(BadToken::Unsecured));
    assert_eq!(verify(&unsecured, true).unwrap().name, "ana");
    assert_eq!(verify(&format!("{unsecured}AAAA"), true), Err(BadToken::Signature));
    for name in ["None", "NONE", "HS256", ""] {
        let other = token(&format!(r#"{{"alg":"{name}"}}"#), &claims(), "");
        assert_eq!(verify(&other, true), Err(BadToken::Unsupported), "{name}");
    }
    assert_eq!(verify(&token(r#"{"alg":"none","crit":["exp"]}"#, &claims(), ""), true), Err(BadToken::Unsupported));
}

/// RFC 7515, appendix A.2 (RS256) and A.3 (ES256): keys, and signed messages with `exp` 1300819380 and no `sub`.
const RFC_KEYS: &str = r#"{"keys":[
 {"kty":"RSA","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ","e":"AQAB"},
 {"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}
]}"#;
const RFC_CLAIMS: &str =
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
const RFC_RS256: &str = "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
const RFC_ES256: &str = "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";

#[test]
fn the_signatures_of_the_standards_examples_are_right() {
    let keys = Keys::of_text(RFC_KEYS).unwrap();
    for (algorithm, header, signature) in
        [("RS256", "eyJhbGciOiJSUzI1NiJ9", RFC_RS256), ("ES256", "eyJhbGciOiJFUzI1NiJ9", RFC_ES256)]
    {
        let signed = format!("{header}.{RFC_CLAIMS}");
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        assert_eq!(keys.verify(algorithm, None, &signed, &signature), Ok(()), "{algorithm}");
        assert_eq!(keys.verify(algorithm, None, &signed[1..], &signature), Err(BadToken::Signature));
        assert_eq!(keys.verify(algorithm, Some("one"), &signed, &signature), Err(BadToken::UnknownKey));
        for other in ["PS256", "RS384", "RS512", "ES384", "HS256", "none"] {
            assert!(keys.verify(other, None, &signed, &signature).is_err(), "{other} {algorithm}");
        }
    }
}

#[test]
fn keys_that_cannot_sign_are_passed_over_and_a_set_without_others_is_refused() {
    let key = Issuer::new("one").unwrap().key();
    let others = [
        r#"{"kty":"oct","k":"AAAA"}"#.to_owned(),
        r#"{"kty":"RSA","n":"AAAA","e":"AQAB"}"#.to_owned(),
        r#"{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}"#.to_owned(),
        r#"{"kty":"EC","crv":"secp256k1","x":"AA","y":"AA"}"#.to_owned(),
        key.replace("\"sig\"", "\"enc\""),
        "5".to_owned(),
    ];
    let set = |keys: &[String]| Keys::of_text(&format!(r#"{{"keys":[{}]}}"#, keys.join(",")));
    assert_eq!(set(&[&others[..], &[key]].concat()).unwrap().count(), 1);
    for text in [set(&others), set(&[]), Keys::of_text("{}"), Keys::of_text("[]"), Keys::of_text("secret")] {
        let error = text.unwrap_err().to_string();
        assert!(error.starts_with("it is not a JSON web key set") && !error.contains("secret"), "{error}");
    }
}

proptest! {
    #[test]
    fn a_damaged_token_is_refused_and_nothing_of_it_is_in_the_error(at in 0_usize..200, byte in 0_u8..128) {
        let issuer = Issuer::new("one").unwrap();
        let whole = issuer.sign(&claims().to_string()).unwrap();
        let mut damaged = whole.clone().into_bytes();
        let at = at % damaged.len();
        damaged[at] = byte;
        let damaged = String::from_utf8(damaged).unwrap();
        let verdict = verifier(&[&issuer], rules()).verify(&damaged, NOW_S * 1_000);
        prop_assert_eq!(verdict.is_ok(), damaged == whole);
    }

    #[test]
    fn no_text_panics(text in "\\PC*", header in "\\PC*", claims in "\\PC*") {
        let verifier = Verifier { rules: Rules { allow_unsecured: true, ..rules() }, ..Verifier::default() };
        let parts = format!("{}.{}.", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
        prop_assert!(verifier.verify(&text, 0).is_err() && verifier.verify(&parts, i64::MAX).is_err());
        prop_assert!(Keys::of_text(&text).is_err());
    }
}
