"""Functions that a user's expression may not call, each with the reason.

The list is about what a function does outside of its row. Functions of the row alone are all
allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_RUNS_CODE = "it calls any Java method of the engine"
_READS_FILES = "it reads files or data sources outside of the stream"
_KNOWS_ENGINE = "it tells about the engine's user, catalog or files, which are not part of the row"
_FROZEN = (
    "it is computed once for a kept plan, so every micro-batch would get the same value; use "
    "InsertField with `timestamp.field`"
)
_SEEDED = (
    "its seed is drawn once for a kept plan, so micro-batches would repeat the same values; let "
    "the source or the sink make them"
)
_MANY_ROWS = "it makes several rows of one; rows and offsets could no longer be matched"
_FEW_ROWS = "it makes one row of several; a transform sees one row at a time"
_BY_NAME = "it turns text into a name, so that what is called could not be checked"

_REASONS: Final[Mapping[str, str]] = {
    _RUNS_CODE: "reflect java_method try_reflect",
    _READS_FILES: "from_protobuf to_protobuf read_files",
    _KNOWS_ENGINE: """
        input_file_name input_file_block_start input_file_block_length current_catalog
        current_database current_schema current_user session_user user version
        spark_partition_id""",
    _FROZEN: """
        now curdate current_date current_time current_timestamp current_timezone
        localtimestamp""",
    _SEEDED: "rand random randn randstr uniform uuid shuffle monotonically_increasing_id",
    _MANY_ROWS: """
        explode explode_outer posexplode posexplode_outer inline inline_outer stack json_tuple
        variant_explode variant_explode_outer window session_window""",
    _FEW_ROWS: """
        any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate
        approx_top_k_combine array_agg avg bit_and bit_or bit_xor bitmap_and_agg
        bitmap_construct_agg bitmap_or_agg bool_and bool_or collect_list collect_set corr count
        count_if count_min_sketch covar_pop covar_samp cume_dist dense_rank every first first_value
        grouping grouping_id histogram_numeric hll_sketch_agg hll_union_agg kll_merge_agg_bigint
        kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double
        kll_sketch_agg_float kurtosis lag last last_value lead listagg max max_by mean median min
        min_by mode nth_value ntile percent_rank percentile percentile_approx percentile_cont
        percentile_disc rank regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope
        regr_sxx regr_sxy regr_syy row_number skewness some std stddev stddev_pop stddev_samp
        string_agg sum theta_intersection_agg theta_sketch_agg theta_union_agg try_avg try_sum
        var_pop var_samp variance""",
    _BY_NAME: "identifier",
}

FUNCTIONS: Final[Mapping[str, str]] = {
    function: reason for reason, functions in _REASONS.items() for function in functions.split()
}
"""Function (lower case) to reason."""

CONSTANTS: Final[Mapping[str, str]] = {
    word: FUNCTIONS[word.lower()]
    for word in ("CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIMESTAMP")
}
"""Words (upper case) that are calls without parentheses."""

WITHOUT_ARGUMENTS: Final[Mapping[str, str]] = {
    "unix_timestamp": _FROZEN,
    "to_unix_timestamp": _FROZEN,
}
"""Functions (lower case) that are refused when they are called with nothing."""
