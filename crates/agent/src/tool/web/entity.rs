//! Character references of HTML.

/// The names that pages use most.
const NAMED: [(&str, &str); 36] = [
    ("amp", "&"),
    ("lt", "<"),
    ("gt", ">"),
    ("quot", "\""),
    ("apos", "'"),
    ("nbsp", " "),
    ("copy", "\u{a9}"),
    ("reg", "\u{ae}"),
    ("trade", "\u{2122}"),
    ("hellip", "\u{2026}"),
    ("mdash", "\u{2014}"),
    ("ndash", "\u{2013}"),
    ("lsquo", "\u{2018}"),
    ("rsquo", "\u{2019}"),
    ("ldquo", "\u{201c}"),
    ("rdquo", "\u{201d}"),
    ("bull", "\u{2022}"),
    ("middot", "\u{b7}"),
    ("laquo", "\u{ab}"),
    ("raquo", "\u{bb}"),
    ("times", "\u{d7}"),
    ("deg", "\u{b0}"),
    ("euro", "\u{20ac}"),
    ("pound", "\u{a3}"),
    ("sect", "\u{a7}"),
    ("para", "\u{b6}"),
    ("rarr", "\u{2192}"),
    ("larr", "\u{2190}"),
    ("auml", "\u{e4}"),
    ("ouml", "\u{f6}"),
    ("uuml", "\u{fc}"),
    ("szlig", "\u{df}"),
    ("eacute", "\u{e9}"),
    ("egrave", "\u{e8}"),
    ("shy", ""),
    ("zwnj", ""),
];
/// The longest reference that is looked for.
const MAX_LENGTH: usize = 12;

/// Replaces character references by what they mean; unknown ones stay.
pub(super) fn decode_entities(text: &str) -> String {
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        decoded.push_str(rest.get(..at).unwrap_or_default());
        let after = rest.get(at + 1..).unwrap_or_default();
        let end = after.bytes().take(MAX_LENGTH).position(|byte| byte == b';');
        let meaning = end.and_then(|end| Some((end, meaning_of(after.get(..end)?)?)));
        match meaning {
            Some((end, meaning)) => {
                decoded.push_str(&meaning);
                rest = after.get(end + 1..).unwrap_or_default();
            }
            None => {
                decoded.push('&');
                rest = after;
            }
        }
    }
    decoded.push_str(rest);
    decoded
}

fn meaning_of(name: &str) -> Option<String> {
    if let Some(number) = name.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16).ok()?,
            None => number.parse().ok()?,
        };
        return char::from_u32(code).filter(|letter| *letter != '\0').map(String::from);
    }
    NAMED.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_replaced_and_unknown_ones_stay() {
        assert_eq!(decode_entities("a &lt;b&gt; &amp; &#65;&#x42; &eacute;"), "a <b> & AB \u{e9}");
        assert_eq!(
            decode_entities("AT&T &unknown; &#xFFFFFFFF; & &"),
            "AT&T &unknown; &#xFFFFFFFF; & &"
        );
    }
}
