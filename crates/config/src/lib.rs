//! Configuration: the files of the user and of a project, what of a project is trusted, secrets, the
//! catalogue of models, agents and commands.
