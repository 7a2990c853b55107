//! The words of a command that an answer of "always" allows: `git status`, not every `git`.

/// Commands with how many words name what they do; two words begin with a subcommand.
const KNOWN_COMMANDS: [(usize, &str); 4] = [
    (
        1,
        "cat cd chmod chown cp echo env export grep kill killall ln ls mkdir mv ps pwd rm rmdir sleep source \
         tail touch unset which",
    ),
    (3, "aws az doctl gcloud gh sfdx"),
    (
        2,
        "bazel brew bun cargo cdk cf cmake composer consul crictl deno docker eksctl firebase flyctl git go \
         gradle helm heroku hugo ip kind kubectl kustomize make mc minikube mongosh mysql mvn ng npm nvm nx \
         openssl pip pipenv pnpm poetry podman psql pulumi pyenv python rake rbenv redis-cli rustup serverless \
         skaffold sls sst swift systemctl terraform tmux turbo ufw vault vercel volta wp yarn",
    ),
    (
        3,
        "bun/run bun/x cargo/add cargo/run consul/kv deno/task docker/builder docker/compose \
         docker/container docker/image docker/network docker/volume eksctl/create git/config git/remote \
         git/stash ip/addr ip/link ip/netns ip/route kind/create kubectl/kustomize kubectl/rollout mc/admin \
         npm/exec npm/init npm/run npm/view openssl/req openssl/x509 pnpm/dlx pnpm/exec pnpm/run \
         podman/container podman/image pulumi/stack terraform/workspace vault/auth vault/kv yarn/dlx yarn/run",
    ),
];

/// Returns the words that name what a command does.
pub(super) fn command_prefix(words: &[String]) -> &[String] {
    let arity = |name: &str| {
        let is_known = |(_, names): &&(usize, &str)| names.split(' ').any(|known| known == name);
        KNOWN_COMMANDS.iter().find(is_known).map(|(count, _)| *count)
    };
    let (Some(first), second) = (words.first(), words.get(1)) else { return words };
    let of_two = second.and_then(|second| arity(&format!("{first}/{second}")));
    let count = of_two.or_else(|| arity(first)).unwrap_or(1);
    words.get(..count.min(words.len())).unwrap_or(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_has_the_words_that_name_what_a_command_does() {
        let prefix = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            command_prefix(&words).join(" ")
        };
        for (line, expected) in [
            ("git status --short", "git status"),
            ("git stash pop -q", "git stash pop"),
            ("npm run build", "npm run build"),
            ("npm install x", "npm install"),
            ("head -3", "head"),
            ("gh pr list --web", "gh pr list"),
            ("rm -rf x", "rm"),
            ("git", "git"),
            ("unknown-tool sub", "unknown-tool"),
            ("docker compose up", "docker compose up"),
        ] {
            assert_eq!(prefix(line), expected);
        }
        assert!(command_prefix(&[]).is_empty());
    }
}
