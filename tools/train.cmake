# tutti-train and its tests. What needs LibTorch is left out where there is none.
add_library(tutti_tools_train STATIC
  sim_svg.cpp train/batches.cpp train/checkpoints.cpp train/dry_run.cpp train/launch.cpp train/model_shape.cpp
  train/options.cpp train/plot.cpp train/progress.cpp train/reporter.cpp train/run_folder.cpp train/same_options.cpp
  train/saver.cpp train/settings.cpp train/start.cpp train/step_agreement.cpp train/step_log.cpp train/stop_signal.cpp
  train/text_data.cpp)
target_link_libraries(tutti_tools_train PUBLIC tutti_bench_parts tutti_tools tutti_training)

set(train_sources train/file_commands.cpp train/main.cpp train/train_command.cpp)
if(TARGET tutti_training_torch)
  add_library(tutti_tools_train_model STATIC train/model.cpp train/model_commands.cpp train/trainer.cpp
    train/trainer_step.cpp)
  target_link_libraries(tutti_tools_train_model PUBLIC tutti_tools_train tutti_training_torch)
  tutti_program(tutti-train SOURCES ${train_sources} LINKS tutti_tools_train_model)
else()
  message(STATUS "tutti-train is built without LibTorch and cannot train: 'tools/quickstart --train' installs it")
  tutti_program(tutti-train SOURCES ${train_sources} train/without_torch.cpp LINKS tutti_tools_train)
endif()
set_target_properties(tutti-train PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")

if(TUTTI_TESTS)
  tutti_test(train_test LINKS tutti_tools_train
    SOURCES train/batches_test.cpp train/checkpoints_test.cpp train/dry_run_test.cpp train/launch_test.cpp
            train/plot_test.cpp train/progress_test.cpp train/reporter_test.cpp train/run_folder_test.cpp
            train/same_options_test.cpp train/saver_test.cpp train/settings_test.cpp train/start_test.cpp train/step_agreement_test.cpp
            train/step_log_test.cpp train/text_data_test.cpp)
  set(train_program_tests train/program_test.cpp)
  if(TARGET tutti_training_torch)
    list(APPEND train_program_tests train/program_with_model_test.cpp)
    tutti_test(train_model_test SOURCES train/model_test.cpp LINKS tutti_tools_train_model)
  else()
    list(APPEND train_program_tests train/program_without_model_test.cpp)
  endif()
  tutti_test(train_program_test SECONDS 300 SOURCES ${train_program_tests} LINKS tutti_tools_train)
  target_compile_definitions(train_program_test PRIVATE
    TUTTI_RUN_PROGRAM="$<TARGET_FILE:tutti-run>" TUTTI_TRAIN_PROGRAM="$<TARGET_FILE:tutti-train>")
  add_dependencies(train_program_test tutti-run tutti-train)
endif()
